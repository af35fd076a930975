"""Operators that every target spells alike, rewritten with simpler ones.

Fixed-point multiplications become integer arithmetic in 64 bits. Floor division becomes the
truncating one where neither operand can be negative; by a power of two it is a shift and stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir import (
    INT64,
    BinaryOp,
    Broadcast,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    PrimExpr,
    PrimFunc,
    Select,
    Stmt,
    Visitor,
    add,
    cast,
    const,
    map_children,
    maximum,
    multiply,
    not_equal,
    subtract,
)
from tilewright.ir.intrinsics import shift_left, shift_right
from tilewright.ir.op import Op
from tilewright.lowering.analyzing_rewriter import AnalyzingRewriter
from tilewright.lowering.base import function_pass


def _wide(value: PrimExpr) -> PrimExpr:
    return cast(INT64.with_lanes(value.dtype.lanes), value)


def _rounding_shift(value: PrimExpr, amount: PrimExpr) -> PrimExpr:
    """`value * 2**-amount`, rounded half up."""
    one = const(1, value.dtype)
    half = shift_left(one, subtract(amount, one))
    return shift_right(add(value, half), amount)


def _q_multiply_shift(call: Call) -> PrimExpr:
    x, y, q, s = map(_wide, call.args)
    product, total = multiply(x, y), subtract(q, s)
    if isinstance(total, IntImm):
        shifted = (
            _rounding_shift(product, total)
            if total.value > 0
            else shift_left(product, const(-total.value, total.dtype))
        )
        return cast(call.dtype, shifted)
    one, zero = const(1, total.dtype), const(0, total.dtype)
    right = _rounding_shift(product, maximum(total, one))
    left = shift_left(product, maximum(subtract(zero, total), zero))
    return cast(call.dtype, Select(total > zero, right, left))


def _q_multiply_shift_per_axis(call: Call) -> PrimExpr:
    x, y, left, right, q, left_on, right_on = map(_wide, call.args)
    zero = const(0, x.dtype)
    x = shift_left(x, _chosen(not_equal(left_on, zero), left, zero))
    total = add(q, _chosen(not_equal(right_on, zero), right, zero))
    return cast(call.dtype, _rounding_shift(multiply(x, y), total))


def _chosen(condition: PrimExpr, then_value: PrimExpr, else_value: PrimExpr) -> PrimExpr:
    if isinstance(condition, IntImm):
        return then_value if condition.value else else_value
    return Select(condition, then_value, else_value)


_RULES: dict[str, Callable[[Call], PrimExpr]] = {
    "tir.q_multiply_shift": _q_multiply_shift,
    "tir.q_multiply_shift_per_axis": _q_multiply_shift_per_axis,
}


def fixed_point_product(call: Call) -> PrimExpr:
    """A fixed-point multiplication as integer arithmetic."""
    assert isinstance(call.op, Op)
    return _RULES[call.op.name](call)


_TRUNCATING: dict[type[BinaryOp], type[BinaryOp]] = {FloorDiv: Div, FloorMod: Mod}


def _is_power_of_two(divisor: PrimExpr) -> bool:
    if isinstance(divisor, Broadcast):
        divisor = divisor.value
    return (
        isinstance(divisor, IntImm)
        and divisor.value > 0
        and divisor.value & (divisor.value - 1) == 0
    )


class _Lowerer(AnalyzingRewriter):
    def visit_call(self, node: Call) -> Any:
        result: Any = super().visit_call(node)
        if not isinstance(result, Call) or not isinstance(result.op, Op):
            return result
        rule = _RULES.get(result.op.name)
        return result if rule is None else rule(result)

    def visit_floor_div(self, node: FloorDiv | FloorMod) -> PrimExpr:
        node = map_children(node, self.visit)
        if _is_power_of_two(node.b) or not node.dtype.is_int:
            return node
        bounds = (self.analyzer.const_int_bound(side) for side in (node.a, node.b))
        if any(bound.min_value < 0 for bound in bounds):
            return node
        return _TRUNCATING[type(node)](node.a, node.b)

    visit_floor_mod = visit_floor_div


class _Candidates(Visitor):
    def __init__(self, body: Stmt) -> None:
        self.found = False
        self.visit(body)

    def visit_call(self, node: Call) -> None:
        self.found = self.found or (isinstance(node.op, Op) and node.op.name in _RULES)
        self.generic_visit(node)

    def visit_floor_div(self, node: FloorDiv | FloorMod) -> None:
        self.found = self.found or not _is_power_of_two(node.b)
        self.generic_visit(node)

    visit_floor_mod = visit_floor_div

    def visit_int_imm(self, node: IntImm) -> None:
        """Nothing inside."""


@function_pass
def LowerIntrin(func: PrimFunc) -> PrimFunc:
    """Rewrite operators that no backend needs to know."""
    if not _Candidates(func.body).found:
        return func
    return func.with_body(_Lowerer(func).rewrite(func.body))
