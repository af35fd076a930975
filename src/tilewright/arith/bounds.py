"""Constant bounds of integer expressions: `[min_value, max_value]`, either may be infinite.

Arithmetic on int32 and int64 never overflows, by assumption; narrower and unsigned types wrap, so
a bound that leaves their range falls back to the whole range.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import floordiv
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tilewright import ir

if TYPE_CHECKING:
    from tilewright.arith.facts import Facts

POS_INF: Final = (1 << 63) - 1
NEG_INF: Final = -POS_INF


class ConstIntBound(NamedTuple):
    """All values lie in `[min_value, max_value]`; `NEG_INF` and `POS_INF` mean "no bound"."""

    min_value: int
    max_value: int

    def contains(self, value: int) -> bool:
        return self.min_value <= value <= self.max_value


EVERYTHING: Final = ConstIntBound(NEG_INF, POS_INF)
BOOLEAN: Final = ConstIntBound(0, 1)


def is_index_type(dtype: ir.DType) -> bool:
    """Signed integers of 32 bits and more, whose arithmetic does not overflow by assumption."""
    return dtype.code == "int" and dtype.bits >= 32


@functools.cache
def dtype_bound(dtype: ir.DType) -> ConstIntBound:
    """The values a type can hold."""
    if dtype.is_bool:
        return BOOLEAN
    if dtype.is_int and dtype.bits < 64:
        return ConstIntBound(-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1)
    if dtype.is_uint:
        return ConstIntBound(0, (1 << dtype.bits) - 1 if dtype.bits < 63 else POS_INF)
    return EVERYTHING


def _clamp(value: int) -> int:
    return NEG_INF if value <= NEG_INF else POS_INF if value >= POS_INF else value


def _sum_low(a: int, b: int) -> int:
    return NEG_INF if a == NEG_INF or b == NEG_INF else _clamp(a + b)


def _sum_high(a: int, b: int) -> int:
    return POS_INF if a == POS_INF or b == POS_INF else _clamp(a + b)


def add_bounds(a: ConstIntBound, b: ConstIntBound) -> ConstIntBound:
    return ConstIntBound(_sum_low(a[0], b[0]), _sum_high(a[1], b[1]))


def sub_bounds(a: ConstIntBound, b: ConstIntBound) -> ConstIntBound:
    return ConstIntBound(_sum_low(a[0], -b[1]), _sum_high(a[1], -b[0]))


def mul_bounds(a: ConstIntBound, b: ConstIntBound) -> ConstIntBound:
    if b[0] == b[1] and NEG_INF < b[0] < POS_INF:
        return scale_bound(a, b[0])
    corners = [_clamp(x * y) for x in a for y in b]
    return ConstIntBound(min(corners), max(corners))


def scale_bound(a: ConstIntBound, factor: int) -> ConstIntBound:
    low, high = _clamp(a[0] * factor), _clamp(a[1] * factor)
    return ConstIntBound(low, high) if factor >= 0 else ConstIntBound(high, low)


def _divide(x: int, y: int, quotient: Callable[[int, int], int]) -> int:
    if x in (NEG_INF, POS_INF):
        return x if y > 0 else -x
    return quotient(x, y)


def _trunc_quotient(x: int, y: int) -> int:
    result = abs(x) // abs(y)
    return result if (x < 0) == (y < 0) else -result


def _nonzero_ends(divisor: ConstIntBound) -> list[int]:
    """The ends of the negative and of the positive part of the divisor."""
    low, high = divisor
    ends = []
    if low < 0:
        ends += [low, min(high, -1)]
    if high > 0:
        ends += [max(low, 1), high]
    return ends


def div_bounds(
    a: ConstIntBound, b: ConstIntBound, quotient: Callable[[int, int], int]
) -> ConstIntBound:
    corners = [_divide(x, y, quotient) for x in a for y in _nonzero_ends(b)]
    if a[0] <= 0 <= a[1]:
        corners.append(0)
    return ConstIntBound(min(corners), max(corners)) if corners else EVERYTHING


def floormod_bounds(a: ConstIntBound, b: ConstIntBound) -> ConstIntBound:
    """The sign of the result is that of the divisor."""
    if b[0] > 0 and a[0] >= 0:
        return a if a[1] < b[0] else ConstIntBound(0, min(a[1], _sum_high(b[1], -1)))
    low = min(0, _sum_low(b[0], 1)) if b[0] < 0 else 0
    high = max(0, _sum_high(b[1], -1)) if b[1] > 0 else 0
    return ConstIntBound(low, high)


def truncmod_bounds(a: ConstIntBound, b: ConstIntBound) -> ConstIntBound:
    """The sign of the result is that of the dividend."""
    largest = max(abs(b[0]), abs(b[1]))
    limit = POS_INF if largest >= POS_INF else max(0, largest - 1)
    low = 0 if a[0] >= 0 else max(a[0], -limit)
    high = 0 if a[1] <= 0 else min(a[1], limit)
    return ConstIntBound(low, high)


def union_bounds(a: ConstIntBound, b: ConstIntBound) -> ConstIntBound:
    return ConstIntBound(min(a[0], b[0]), max(a[1], b[1]))


def _of_var(facts: Facts, expr: ir.Var) -> ConstIntBound:
    known = facts.var_bounds.get(expr)
    if known is not None:
        return known
    whole = dtype_bound(expr.dtype)
    return ConstIntBound(0, whole[1]) if isinstance(expr, ir.SizeVar) else whole


def _of_cast(facts: Facts, expr: ir.Cast) -> ConstIntBound:
    source, target = expr.value.dtype, dtype_bound(expr.dtype)
    if not (source.is_integral or source.is_bool):
        return target
    value = facts.bound(expr.value)
    return value if target[0] <= value[0] and value[1] <= target[1] else target


def _of_ramp(facts: Facts, expr: ir.Ramp) -> ConstIntBound:
    steps = mul_bounds(facts.bound(expr.stride), ConstIntBound(0, expr.lanes - 1))
    return add_bounds(facts.bound(expr.base), steps)


def _of_floormod(facts: Facts, expr: ir.FloorMod) -> ConstIntBound:
    result = floormod_bounds(facts.bound(expr.a), facts.bound(expr.b))
    divisor = expr.b
    if type(divisor) is not ir.IntImm or divisor.value <= 1 or type(expr.a) is ir.Var:
        return result
    coeff, base = facts.modular(expr.a).gcd_with(divisor.value)
    if coeff <= 1:
        return result
    # Every value is base, base + coeff, ..., up to the last one below the divisor.
    return ConstIntBound(max(result[0], base), min(result[1], divisor.value - coeff + base))


def _bitwise_and(facts: Facts, expr: ir.Call) -> ConstIntBound:
    a, b = facts.bound(expr.args[0]), facts.bound(expr.args[1])
    limits = [bound[1] for bound in (a, b) if bound[0] >= 0]
    return ConstIntBound(0, min(limits)) if limits else dtype_bound(expr.dtype)


def _shift_right(facts: Facts, expr: ir.Call) -> ConstIntBound:
    a, b = facts.bound(expr.args[0]), facts.bound(expr.args[1])
    if b[0] < 0 or b[1] > 63:
        return dtype_bound(expr.dtype)
    return div_bounds(a, ConstIntBound(1 << b[0], 1 << b[1]), floordiv)


def _shift_left(facts: Facts, expr: ir.Call) -> ConstIntBound:
    a, b = facts.bound(expr.args[0]), facts.bound(expr.args[1])
    if b[0] < 0 or b[1] > 62:
        return dtype_bound(expr.dtype)
    return mul_bounds(a, ConstIntBound(1 << b[0], 1 << b[1]))


_CALLS: dict[str, Callable[[Facts, ir.Call], ConstIntBound]] = {
    "tir.bitwise_and": _bitwise_and,
    "tir.shift_right": _shift_right,
    "tir.shift_left": _shift_left,
    "tir.if_then_else": lambda facts, expr: union_bounds(*map(facts.bound, expr.args[1:])),
    "tir.likely": lambda facts, expr: facts.bound(expr.args[0]),
    "tir.clz": lambda _, expr: ConstIntBound(0, expr.args[0].dtype.bits),
    "tir.popcount": lambda _, expr: ConstIntBound(0, expr.args[0].dtype.bits),
}


def _of_call(facts: Facts, expr: ir.Call) -> ConstIntBound:
    rule = _CALLS.get(expr.op.name) if isinstance(expr.op, ir.Op) else None
    return dtype_bound(expr.dtype) if rule is None else rule(facts, expr)


def _pairwise(
    combine: Callable[[ConstIntBound, ConstIntBound], ConstIntBound],
) -> Callable[[Facts, Any], ConstIntBound]:
    return lambda facts, expr: combine(facts.bound(expr.a), facts.bound(expr.b))


BOUND_OF: dict[type, Callable[[Facts, Any], ConstIntBound]] = {
    ir.IntImm: lambda _, expr: ConstIntBound(_clamp(expr.value), _clamp(expr.value)),
    ir.Var: _of_var,
    ir.SizeVar: _of_var,
    ir.Cast: _of_cast,
    ir.Select: lambda facts, expr: union_bounds(
        facts.bound(expr.true_value), facts.bound(expr.false_value)
    ),
    ir.Ramp: _of_ramp,
    ir.Broadcast: lambda facts, expr: facts.bound(expr.value),
    ir.Call: _of_call,
    ir.Add: _pairwise(add_bounds),
    ir.Sub: _pairwise(sub_bounds),
    ir.Mul: _pairwise(mul_bounds),
    ir.Div: _pairwise(lambda a, b: div_bounds(a, b, _trunc_quotient)),
    ir.Mod: _pairwise(truncmod_bounds),
    ir.FloorDiv: _pairwise(lambda a, b: div_bounds(a, b, floordiv)),
    ir.FloorMod: _of_floormod,
    ir.Min: _pairwise(lambda a, b: ConstIntBound(min(a[0], b[0]), min(a[1], b[1]))),
    ir.Max: _pairwise(lambda a, b: ConstIntBound(max(a[0], b[0]), max(a[1], b[1]))),
    **dict.fromkeys(
        (ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE, ir.And, ir.Or, ir.Not), lambda *_: BOOLEAN
    ),
}


def compute_bound(facts: Facts, expr: ir.PrimExpr) -> ConstIntBound:
    """The bound of `expr` from those of its parts (`facts.bound` adds memory and constraints)."""
    rule = BOUND_OF.get(type(expr))
    whole = dtype_bound(expr.dtype)
    if rule is None or expr.dtype.is_float:
        return whole
    result = rule(facts, expr)
    if is_index_type(expr.dtype) or (whole[0] <= result[0] and result[1] <= whole[1]):
        return result
    return whole
