"""Counts the arithmetic operations that a program carries out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright import ir
from tilewright.errors import ScheduleError

Counts = dict[ir.DType, float]


def estimate_tir_flops(program: ir.PrimFunc | ir.IRModule) -> float:
    """The operations of one run; an attribute `estimated_flops` of a function decides for it.

    Index arithmetic, comparisons and the initialization of reductions do not count.
    """
    funcs = program.functions.values() if isinstance(program, ir.IRModule) else (program,)
    return sum((_of_function(func) for func in funcs), 0.0)


def flop_of(program: ir.PrimFunc | ir.IRModule) -> float:
    """The same, at least 1; also 1 where loops run as often as the data say."""
    try:
        return max(1.0, estimate_tir_flops(program))
    except ScheduleError:
        return 1.0


def _of_function(func: ir.PrimFunc) -> float:
    declared: Any = func.attrs.get("estimated_flops")
    if declared is not None:
        return float(getattr(declared, "value", declared))
    return sum(_of_stmt(func.body).values(), 0.0)


def _of_stmt(stmt: ir.Stmt) -> Counts:
    match stmt:
        case ir.BufferStore(value=value) | ir.Evaluate(value=value):
            return _of_expr(value)
        case ir.For(extent=ir.IntImm(value=times), body=body):
            return {kind: count * times for kind, count in _of_stmt(body).items()}
        case ir.SeqStmt(seq=items):
            return _total(*map(_of_stmt, items))
        case ir.BlockRealize(block=ir.Block(body=body)):
            return _of_stmt(body)
        case ir.IfThenElse(condition=condition, then_case=then_case, else_case=else_case):
            other: Counts = {} if else_case is None else _of_stmt(else_case)
            return _total(_of_expr(condition), _larger(_of_stmt(then_case), other))
        case ir.LetStmt(value=value, body=body):
            return _total(_of_expr(value), _of_stmt(body))
        case ir.AllocateConst() | ir.Allocate() | ir.DeclBuffer() | ir.AttrStmt() | ir.AssertStmt():
            return _of_stmt(stmt.body)
        case ir.For():
            raise ScheduleError(
                f"cannot count operations: loop {stmt.loop_var.name!r} has the symbolic extent "
                f"`{stmt.extent}`; set the function attribute 'estimated_flops'"
            )
    raise ScheduleError(f"cannot count the operations of a {type(stmt).__name__} statement")


def _of_expr(expr: ir.Node) -> Counts:
    match expr:
        case ir.And(a=a, b=b) | ir.Or(a=a, b=b):
            return _total(_of_expr(a), _of_expr(b))
        case ir.CmpOp() | ir.BufferLoad():
            return {}
        case (
            ir.Add()
            | ir.Sub()
            | ir.Mul()
            | ir.Div()
            | ir.Mod()
            | ir.FloorDiv()
            | ir.FloorMod()
            | ir.Min()
            | ir.Max()
        ):
            one = {expr.dtype.element_of: float(expr.dtype.lanes)}
            return _total(one, _of_expr(expr.a), _of_expr(expr.b))
        case ir.Cast(value=value) | ir.Not(a=value) | ir.Broadcast(value=value):
            return _of_expr(value)
        case ir.Call(args=args):
            return _total(*map(_of_expr, args))
        case ir.Select(condition=condition, true_value=chosen, false_value=other):
            return _total(_of_expr(condition), _larger(_of_expr(chosen), _of_expr(other)))
        case ir.Let(value=value, body=body):
            return _total(_of_expr(value), _of_expr(body))
    return {}


def _total(*parts: Mapping[ir.DType, float]) -> Counts:
    result: Counts = {}
    for part in parts:
        for kind, count in part.items():
            result[kind] = result.get(kind, 0.0) + count
    return result


def _larger(a: Mapping[ir.DType, float], b: Mapping[ir.DType, float]) -> Counts:
    return {kind: max(a.get(kind, 0.0), b.get(kind, 0.0)) for kind in dict.fromkeys([*a, *b])}
