"""Operators that every target spells alike, rewritten with simpler ones.

Fixed-point multiplications become integer arithmetic in 64 bits. Floor division becomes the
truncating one where neither operand can be negative; by a power of two it is a shift and stays.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright import ir
from tilewright.ir.intrinsics import shift_left, shift_right
from tilewright.lowering.analyzing_rewriter import AnalyzingRewriter
from tilewright.lowering.base import function_pass


def _wide(value: ir.PrimExpr) -> ir.PrimExpr:
    return ir.cast(ir.INT64.with_lanes(value.dtype.lanes), value)


def _rounding_shift(value: ir.PrimExpr, amount: ir.PrimExpr) -> ir.PrimExpr:
    """`value * 2**-amount`, rounded half up."""
    one = ir.const(1, value.dtype)
    half = shift_left(one, ir.subtract(amount, one))
    return shift_right(ir.add(value, half), amount)


def _q_multiply_shift(call: ir.Call) -> ir.PrimExpr:
    x, y, q, s = map(_wide, call.args)
    product, total = ir.multiply(x, y), ir.subtract(q, s)
    if isinstance(total, ir.IntImm):
        shifted = (
            _rounding_shift(product, total)
            if total.value > 0
            else shift_left(product, ir.const(-total.value, total.dtype))
        )
        return ir.cast(call.dtype, shifted)
    one, zero = ir.const(1, total.dtype), ir.const(0, total.dtype)
    right = _rounding_shift(product, ir.maximum(total, one))
    left = shift_left(product, ir.maximum(ir.subtract(zero, total), zero))
    return ir.cast(call.dtype, ir.Select(total > zero, right, left))


def _q_multiply_shift_per_axis(call: ir.Call) -> ir.PrimExpr:
    x, y, left, right, q, left_on, right_on = map(_wide, call.args)
    zero = ir.const(0, x.dtype)
    x = shift_left(x, _chosen(ir.not_equal(left_on, zero), left, zero))
    total = ir.add(q, _chosen(ir.not_equal(right_on, zero), right, zero))
    return ir.cast(call.dtype, _rounding_shift(ir.multiply(x, y), total))


def _chosen(
    condition: ir.PrimExpr, then_value: ir.PrimExpr, else_value: ir.PrimExpr
) -> ir.PrimExpr:
    if isinstance(condition, ir.IntImm):
        return then_value if condition.value else else_value
    return ir.Select(condition, then_value, else_value)


_RULES: dict[str, Callable[[ir.Call], ir.PrimExpr]] = {
    "tir.q_multiply_shift": _q_multiply_shift,
    "tir.q_multiply_shift_per_axis": _q_multiply_shift_per_axis,
}


def fixed_point_product(call: ir.Call) -> ir.PrimExpr:
    """A fixed-point multiplication as integer arithmetic."""
    assert isinstance(call.op, ir.Op)
    return _RULES[call.op.name](call)


_TRUNCATING: dict[type[ir.BinaryOp], type[ir.BinaryOp]] = {ir.FloorDiv: ir.Div, ir.FloorMod: ir.Mod}


def _is_power_of_two(divisor: ir.PrimExpr) -> bool:
    if isinstance(divisor, ir.Broadcast):
        divisor = divisor.value
    return (
        isinstance(divisor, ir.IntImm)
        and divisor.value > 0
        and divisor.value & (divisor.value - 1) == 0
    )


class _Lowerer(AnalyzingRewriter):
    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        result = super().visit_call(node)
        if not isinstance(result, ir.Call) or not isinstance(result.op, ir.Op):
            return result
        rule = _RULES.get(result.op.name)
        return result if rule is None else rule(result)

    def visit_floor_div(self, node: ir.FloorDiv | ir.FloorMod) -> ir.PrimExpr:
        node = ir.map_children(node, self.visit)
        if _is_power_of_two(node.b) or not node.dtype.is_int:
            return node
        bounds = (self.analyzer.const_int_bound(side) for side in (node.a, node.b))
        if any(bound.min_value < 0 for bound in bounds):
            return node
        return _TRUNCATING[type(node)](node.a, node.b)

    visit_floor_mod = visit_floor_div


def _is_candidate(node: ir.Call | ir.FloorDiv | ir.FloorMod) -> bool:
    if isinstance(node, ir.Call):
        return isinstance(node.op, ir.Op) and node.op.name in _RULES
    return not _is_power_of_two(node.b)


@function_pass
def LowerIntrin(func: ir.PrimFunc) -> ir.PrimFunc:
    """Rewrite operators that no backend needs to know."""
    kinds = {ir.Call, ir.FloorDiv, ir.FloorMod}
    if not any([_is_candidate(node) for node in ir.walk(func.body) if type(node) in kinds]):
        return func
    return func.with_body(_Lowerer(func).rewrite(func.body))
