"""Bounds of index expressions whose loop variables range over intervals.

Bounds are linear forms of whatever stays symbolic, so that `i .. i + 3` has length 4 for any `i`.
This serves the regions of blocks; `arith` answers the harder questions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilewright.ir.arithmetic import const, floordiv, maximum, minimum
from tilewright.ir.expr import (
    Add,
    Broadcast,
    Call,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Ramp,
    Range,
    Select,
    Sub,
    Var,
)
from tilewright.ir.linear import Linear
from tilewright.ir.op import Op
from tilewright.ir.visit import uses_var


@dataclasses.dataclass(frozen=True)
class Interval:
    """The integers from `low` to `high`, both included."""

    low: Linear
    high: Linear
    point: PrimExpr | None = None  # the expression itself where it is a single value

    @staticmethod
    def of(expr: PrimExpr) -> Interval:
        linear = Linear.of(expr)
        return Interval(linear, linear, expr)

    def plus(self, other: Interval) -> Interval:
        return Interval(self.low.plus(other.low), self.high.plus(other.high))

    def times(self, factor: int) -> Interval:
        ends = self.low.times(factor), self.high.times(factor)
        return Interval(*ends) if factor >= 0 else Interval(ends[1], ends[0])

    def to_range(self) -> Range:
        """The same integers as a range."""
        if self.point is not None:
            return Range(self.point, const(1, self.point.dtype))
        return Range(self.low.expr(), self.high.minus(self.low).plus(1).expr())


Domains = Mapping[Var, Interval | None]


def bounds_of(expr: PrimExpr, domains: Domains) -> Interval | None:
    """The bounds of `expr` while the variables in `domains` take all their values."""
    if expr.dtype.lanes == 1 and not uses_var(expr, lambda var: var in domains):
        return Interval.of(expr)
    match expr:
        case Var():
            return domains[expr]
        case Add(a=a, b=b):
            left, right = bounds_of(a, domains), bounds_of(b, domains)
            return None if left is None or right is None else left.plus(right)
        case Sub(a=a, b=b):
            left, right = bounds_of(a, domains), bounds_of(b, domains)
            return None if left is None or right is None else left.plus(right.times(-1))
        case Mul(a=a, b=IntImm(value=factor)) | Mul(a=IntImm(value=factor), b=a):
            scaled = bounds_of(a, domains)
            return None if scaled is None else scaled.times(factor)
        case FloorDiv(a=a, b=IntImm(value=divisor)) if divisor > 0:
            return _quotient(bounds_of(a, domains), divisor)
        case FloorMod(a=a, b=IntImm(value=divisor)) if divisor > 0:
            return _remainder(bounds_of(a, domains), divisor)
        case Min(a=a, b=b) | Max(a=a, b=b):
            return _extremum(isinstance(expr, Min), bounds_of(a, domains), bounds_of(b, domains))
    return _vector_or_choice(expr, domains)


def _vector_or_choice(expr: PrimExpr, domains: Domains) -> Interval | None:
    match expr:
        case Ramp(base=base, stride=IntImm(value=stride), lanes=lanes):
            start = bounds_of(base, domains)
            if start is None:
                return None
            reach = (lanes - 1) * stride
            return Interval(start.low.plus(min(reach, 0)), start.high.plus(max(reach, 0)))
        case Broadcast(value=value):
            return bounds_of(value, domains)
        case Select(true_value=a, false_value=b):
            return hull([bounds_of(a, domains), bounds_of(b, domains)])
        case Call(op=Op(name="tir.if_then_else"), args=(_, a, b)):
            return hull([bounds_of(a, domains), bounds_of(b, domains)])
    return None


def _quotient(dividend: Interval | None, divisor: int) -> Interval | None:
    if dividend is None:
        return None
    low, high = (floordiv(end.expr(), divisor) for end in (dividend.low, dividend.high))
    return Interval(Linear.of(low), Linear.of(high))


def _remainder(dividend: Interval | None, divisor: int) -> Interval | None:
    if dividend is None:
        return None
    dtype = dividend.low.dtype
    low, high = dividend.low.value, dividend.high.value
    if low is not None and high is not None and low // divisor == high // divisor:
        return Interval(Linear(dtype, low % divisor), Linear(dtype, high % divisor))
    return Interval(Linear(dtype), Linear(dtype, divisor - 1))


def _extremum(is_min: bool, left: Interval | None, right: Interval | None) -> Interval | None:
    if left is None or right is None:
        return None
    pick = _smaller if is_min else _larger
    return Interval(pick(left.low, right.low), pick(left.high, right.high))


def _smaller(left: Linear, right: Linear) -> Linear:
    difference = left.minus(right).value
    if difference is None:
        return Linear.of(minimum(left.expr(), right.expr()))
    return left if difference <= 0 else right


def _larger(left: Linear, right: Linear) -> Linear:
    difference = left.minus(right).value
    if difference is None:
        return Linear.of(maximum(left.expr(), right.expr()))
    return left if difference >= 0 else right


def hull(intervals: Sequence[Interval | None]) -> Interval | None:
    """The smallest interval around all of them; None if one is unknown."""
    result = intervals[0]
    for item in intervals[1:]:
        if result is None or item is None:
            return None
        if result.point is not None and item.point is not None and _same(result, item):
            continue
        result = Interval(_smaller(result.low, item.low), _larger(result.high, item.high))
    return result


def _same(left: Interval, right: Interval) -> bool:
    return left.low.minus(right.low).value == 0
