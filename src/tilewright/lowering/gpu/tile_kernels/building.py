"""Statements that tile kernels are written with."""

from __future__ import annotations

from collections.abc import Callable

from tilewright import ir
from tilewright.ir.intrinsics import call_extern, call_intrin

UINT32 = ir.DType("uint32")


def word(value: int) -> ir.PrimExpr:
    """An address in shared memory, or a part of one."""
    return ir.const(value, UINT32)


def run(name: str, *args: ir.ExprLike) -> ir.Stmt:
    """A call of a device function for its effect."""
    return ir.Evaluate(call_extern("void", name, *args))


def put(buffer: ir.Buffer, value: ir.PrimExpr, index: ir.PrimExpr) -> ir.Stmt:
    """An assignment to an element of a flat buffer."""
    return ir.BufferStore(buffer, value, (index,))


def sync() -> ir.Stmt:
    """A barrier of all threads of a block."""
    return ir.Evaluate(call_intrin("int32", "tir.tvm_storage_sync", "shared"))


def bound(name: str, value: ir.PrimExpr, body: Callable[[ir.Var], ir.Stmt]) -> ir.Stmt:
    """`body` with a name for a value."""
    var = ir.Var(name, value.dtype)
    return ir.LetStmt(var, value, body(var))


def loop(
    name: str, extent: ir.ExprLike, body: Callable[[ir.Var], ir.Stmt], *, unrolled: bool = False
) -> ir.Stmt:
    """A loop from zero."""
    var = ir.Var(name, ir.INT32)
    kind = ir.ForKind.UNROLLED if unrolled else ir.ForKind.SERIAL
    return ir.For(var, ir.const(0), ir.convert(extent), kind, body(var))


def vector(width: int, body: Callable[[ir.Var], ir.Stmt]) -> ir.Stmt:
    """A statement for each element of a vector."""
    var = ir.Var("v", ir.INT32)
    return ir.For(var, ir.const(0), ir.const(width), ir.ForKind.VECTORIZED, body(var))


def vector_copy(
    to: ir.Buffer, target: ir.ExprLike, source: ir.Buffer, begin: ir.PrimExpr, width: int
) -> ir.Stmt:
    """A vector from one flat buffer to another."""
    return vector(width, lambda v: put(to, source[begin + v], v + target))


def when(condition: ir.PrimExpr, *then: ir.Stmt) -> ir.Stmt:
    """A conditional statement."""
    return ir.IfThenElse(condition, ir.seq(then))


def on_threads(var: ir.Var, tag: str, extent: int, body: ir.Stmt) -> ir.Stmt:
    """A loop whose iterations are threads, or blocks of threads."""
    domain = ir.Range(ir.const(0), ir.const(extent))
    axis = ir.IterVar(domain, ir.Var(tag, ir.INT32), ir.IterType.THREAD_INDEX, tag)
    return ir.For(var, ir.const(0), ir.const(extent), ir.ForKind.THREAD_BINDING, body, axis)
