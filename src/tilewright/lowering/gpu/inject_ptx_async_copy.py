"""Copies from global to shared memory inside of `async_scope` become `ptx_cp_async`.

The instruction moves 4, 8 or 16 bytes without going through registers, and writes zeros instead
where a condition fails. What it cannot do stays a plain copy, complete before anybody waits for it.
"""

from __future__ import annotations

from typing import Any

from tilewright import ir
from tilewright.ir.intrinsics import call_intrin
from tilewright.lowering.base import function_pass
from tilewright.lowering.gpu.inject_software_pipeline import ASYNC_SCOPE
from tilewright.lowering.gpu.statement_accesses import is_shared
from tilewright.lowering.rewriters import IF_THEN_ELSE
from tilewright.lowering.storage_rewrite import scope_of

COPIED_BYTES = (4, 8, 16)


def _inside(node: ir.AttrStmt) -> ir.Stmt | None:
    if node.attr_key != ASYNC_SCOPE:
        return None
    return ir.rewrite(node.body, {ir.BufferStore: _copied}, before={ir.AttrStmt: _inside})


def _copied(node: ir.BufferStore) -> ir.Stmt:
    if node.predicate is not None or not is_shared(node.buffer.data):
        return node
    copy = _copy(node)
    return node if copy is None else ir.Evaluate(copy)


def _copy(store: ir.BufferStore) -> ir.Call | None:
    load, condition = _guarded(store.value)
    if not isinstance(load, ir.BufferLoad) or load.predicate is not None:
        return None
    if scope_of(load.buffer.data) != "global" or load.buffer.dtype is not store.buffer.dtype:
        return None
    to, origin = _first(store.indices[0]), _first(load.indices[0])
    size = load.dtype.lanes * -(-load.dtype.bits // 8)
    if to is None or origin is None or size not in COPIED_BYTES:
        return None
    parts: list[Any] = [store.buffer.data, to, load.buffer.data, origin, size]
    return call_intrin(
        store.buffer.dtype, "tir.ptx_cp_async", *parts, *([] if condition is None else [condition])
    )


def _guarded(value: ir.PrimExpr) -> tuple[ir.PrimExpr, ir.PrimExpr | None]:
    """A value, and the condition under which it is not zero."""
    if isinstance(value, ir.Call) and value.op is IF_THEN_ELSE and _is_zero(value.args[2]):
        return value.args[1], value.args[0]
    return value, None


def _is_zero(value: ir.PrimExpr) -> bool:
    inner = value.value if isinstance(value, ir.Broadcast) else value
    return isinstance(inner, ir.IntImm | ir.FloatImm) and inner.value == 0


def _first(index: ir.PrimExpr) -> ir.PrimExpr | None:
    """The first of consecutive elements."""
    if isinstance(index, ir.Ramp):
        return index.base if ir.is_one(index.stride) else None
    return index if index.dtype.lanes == 1 else None


@function_pass
def InjectPTXAsyncCopy(func: ir.PrimFunc) -> ir.PrimFunc:
    """Copy asynchronously what a software pipeline marked."""
    return ir.rewrite(func, before={ir.AttrStmt: _inside})
