"""Counts the arithmetic operations that a program carries out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.ir import (
    Add,
    AllocateConst,
    And,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Broadcast,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    CmpOp,
    DeclBuffer,
    Div,
    DType,
    Evaluate,
    FloorDiv,
    FloorMod,
    For,
    IfThenElse,
    IntImm,
    IRModule,
    Let,
    LetStmt,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Not,
    Or,
    PrimFunc,
    Select,
    SeqStmt,
    Stmt,
    Sub,
)
from tilewright.ir.stmt import Allocate

Counts = dict[DType, float]


def estimate_tir_flops(program: PrimFunc | IRModule) -> float:
    """The operations of one run; an attribute `estimated_flops` of a function decides for it.

    Index arithmetic, comparisons and the initialization of reductions do not count.
    """
    funcs = program.functions.values() if isinstance(program, IRModule) else (program,)
    return sum((_of_function(func) for func in funcs), 0.0)


def flop_of(program: PrimFunc | IRModule) -> float:
    """The same, at least 1; also 1 where loops run as often as the data say."""
    try:
        return max(1.0, estimate_tir_flops(program))
    except ScheduleError:
        return 1.0


def _of_function(func: PrimFunc) -> float:
    declared: Any = func.attrs.get("estimated_flops")
    if declared is not None:
        return float(getattr(declared, "value", declared))
    return sum(_of_stmt(func.body).values(), 0.0)


def _of_stmt(stmt: Stmt) -> Counts:
    match stmt:
        case BufferStore(value=value) | Evaluate(value=value):
            return _of_expr(value)
        case For(extent=IntImm(value=times), body=body):
            return {kind: count * times for kind, count in _of_stmt(body).items()}
        case SeqStmt(seq=items):
            return _total(*map(_of_stmt, items))
        case BlockRealize(block=Block(body=body)):
            return _of_stmt(body)
        case IfThenElse(condition=condition, then_case=then_case, else_case=else_case):
            other: Counts = {} if else_case is None else _of_stmt(else_case)
            return _total(_of_expr(condition), _larger(_of_stmt(then_case), other))
        case LetStmt(value=value, body=body):
            return _total(_of_expr(value), _of_stmt(body))
        case AllocateConst() | Allocate() | DeclBuffer() | AttrStmt() | AssertStmt():
            return _of_stmt(stmt.body)
        case For():
            raise ScheduleError(
                f"cannot count operations: loop {stmt.loop_var.name!r} has the symbolic extent "
                f"`{stmt.extent}`; set the function attribute 'estimated_flops'"
            )
    raise ScheduleError(f"cannot count the operations of a {type(stmt).__name__} statement")


def _of_expr(expr: Node) -> Counts:
    match expr:
        case And(a=a, b=b) | Or(a=a, b=b):
            return _total(_of_expr(a), _of_expr(b))
        case CmpOp() | BufferLoad():
            return {}
        case Add() | Sub() | Mul() | Div() | Mod() | FloorDiv() | FloorMod() | Min() | Max():
            one = {expr.dtype.element_of: float(expr.dtype.lanes)}
            return _total(one, _of_expr(expr.a), _of_expr(expr.b))
        case Cast(value=value) | Not(a=value) | Broadcast(value=value):
            return _of_expr(value)
        case Call(args=args):
            return _total(*map(_of_expr, args))
        case Select(condition=condition, true_value=chosen, false_value=other):
            return _total(_of_expr(condition), _larger(_of_expr(chosen), _of_expr(other)))
        case Let(value=value, body=body):
            return _total(_of_expr(value), _of_expr(body))
    return {}


def _total(*parts: Mapping[DType, float]) -> Counts:
    result: Counts = {}
    for part in parts:
        for kind, count in part.items():
            result[kind] = result.get(kind, 0.0) + count
    return result


def _larger(a: Mapping[DType, float], b: Mapping[DType, float]) -> Counts:
    return {kind: max(a.get(kind, 0.0), b.get(kind, 0.0)) for kind in dict.fromkeys([*a, *b])}
