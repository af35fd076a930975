"""Bounds of index expressions whose loop variables range over intervals.

Bounds are linear forms of whatever stays symbolic, so that `i .. i + 3` has length 4 for any `i`.
This serves the regions of blocks; `arith` answers the harder questions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilewright.ir import nodes as ir
from tilewright.ir.linear import Linear
from tilewright.ir.op import Op
from tilewright.ir.visit import uses_var


@dataclasses.dataclass(frozen=True)
class SymbolicInterval:
    """The integers from `low` to `high`, both included."""

    low: Linear
    high: Linear
    point: ir.PrimExpr | None = None  # the expression itself where it is a single value

    @staticmethod
    def of(expr: ir.PrimExpr) -> SymbolicInterval:
        linear = Linear.of(expr)
        return SymbolicInterval(linear, linear, expr)

    def plus(self, other: SymbolicInterval) -> SymbolicInterval:
        return SymbolicInterval(self.low.plus(other.low), self.high.plus(other.high))

    def times(self, factor: int) -> SymbolicInterval:
        ends = self.low.times(factor), self.high.times(factor)
        return SymbolicInterval(*ends) if factor >= 0 else SymbolicInterval(ends[1], ends[0])

    def to_range(self) -> ir.Range:
        """The same integers as a range."""
        if self.point is not None:
            return ir.Range(self.point, ir.const(1, self.point.dtype))
        return ir.Range(self.low.expr(), self.high.minus(self.low).plus(1).expr())


Domains = Mapping[ir.Var, SymbolicInterval | None]


def bounds_of(expr: ir.PrimExpr, domains: Domains) -> SymbolicInterval | None:
    """The bounds of `expr` while the variables in `domains` take all their values."""
    if expr.dtype.lanes == 1 and not uses_var(expr, lambda var: var in domains):
        return SymbolicInterval.of(expr)
    match expr:
        case ir.Var():
            return domains[expr]
        case ir.Add(a=a, b=b) | ir.Sub(a=a, b=b):
            left, right = bounds_of(a, domains), bounds_of(b, domains)
            if left is None or right is None:
                return None
            return left.plus(right if isinstance(expr, ir.Add) else right.times(-1))
        case ir.Mul(a=a, b=ir.IntImm(value=factor)) | ir.Mul(a=ir.IntImm(value=factor), b=a):
            scaled = bounds_of(a, domains)
            return None if scaled is None else scaled.times(factor)
        case ir.FloorDiv(a=a, b=ir.IntImm(value=divisor)) if divisor > 0:
            return _quotient(bounds_of(a, domains), divisor)
        case ir.FloorMod(a=a, b=ir.IntImm(value=divisor)) if divisor > 0:
            return _remainder(bounds_of(a, domains), divisor)
        case ir.Min(a=a, b=b) | ir.Max(a=a, b=b):
            return _extremum(isinstance(expr, ir.Min), bounds_of(a, domains), bounds_of(b, domains))
    return _vector_or_choice(expr, domains)


def _vector_or_choice(expr: ir.PrimExpr, domains: Domains) -> SymbolicInterval | None:
    match expr:
        case ir.Ramp(base=base, stride=ir.IntImm(value=stride), lanes=lanes):
            start = bounds_of(base, domains)
            if start is None:
                return None
            reach = (lanes - 1) * stride
            return SymbolicInterval(start.low.plus(min(reach, 0)), start.high.plus(max(reach, 0)))
        case ir.Broadcast(value=value):
            return bounds_of(value, domains)
        case (
            ir.Select(true_value=a, false_value=b)
            | ir.Call(op=Op(name="tir.if_then_else"), args=(_, a, b))
        ):
            return hull([bounds_of(a, domains), bounds_of(b, domains)])
    return None


def _quotient(dividend: SymbolicInterval | None, divisor: int) -> SymbolicInterval | None:
    if dividend is None:
        return None
    low, high = (ir.floordiv(end.expr(), divisor) for end in (dividend.low, dividend.high))
    return SymbolicInterval(Linear.of(low), Linear.of(high))


def _remainder(dividend: SymbolicInterval | None, divisor: int) -> SymbolicInterval | None:
    if dividend is None:
        return None
    dtype = dividend.low.dtype
    low, high = dividend.low.value, dividend.high.value
    if low is not None and high is not None and low // divisor == high // divisor:
        return SymbolicInterval(Linear(dtype, low % divisor), Linear(dtype, high % divisor))
    return SymbolicInterval(Linear(dtype), Linear(dtype, divisor - 1))


def _extremum(
    is_min: bool, left: SymbolicInterval | None, right: SymbolicInterval | None
) -> SymbolicInterval | None:
    if left is None or right is None:
        return None
    low, high = _chosen(is_min, left.low, right.low), _chosen(is_min, left.high, right.high)
    return SymbolicInterval(low, high)


def _chosen(is_min: bool, left: Linear, right: Linear) -> Linear:
    """The smaller or the larger one."""
    difference = left.minus(right).value
    if difference is None:
        return Linear.of((ir.minimum if is_min else ir.maximum)(left.expr(), right.expr()))
    return left if difference == 0 or (difference < 0) == is_min else right


def hull(intervals: Sequence[SymbolicInterval | None]) -> SymbolicInterval | None:
    """The smallest interval around all of them; None if one is unknown."""
    result = intervals[0]
    for item in intervals[1:]:
        if result is None or item is None:
            return None
        are_points = result.point is not None and item.point is not None
        if are_points and result.low.minus(item.low).value == 0:
            continue
        low, high = _chosen(True, result.low, item.low), _chosen(False, result.high, item.high)
        result = SymbolicInterval(low, high)
    return result
