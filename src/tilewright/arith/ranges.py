"""Bounds of index expressions while some variables run and the others stand still.

The ends may be numbers or arrays of numbers (one for each of many programs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from tilewright import ir
from tilewright.arith.affine import STILL, Bound

Ranges: TypeAlias = Mapping[ir.Var, Bound]


class RangeEvaluator:
    """Interval arithmetic over `ranges`; variables without one stand at zero."""

    __slots__ = ("_unknown", "ranges")

    def __init__(
        self, ranges: Ranges, unknown: Callable[[ir.PrimExpr], Bound] | None = None
    ) -> None:
        self.ranges = ranges
        self._unknown = unknown  # bounds of expressions of other kinds

    def of(self, expr: ir.PrimExpr) -> Bound:
        """The smallest and the largest value of an expression."""
        kind = type(expr)
        if kind is ir.Var:
            return self.of_var(expr)  # type: ignore[arg-type]
        rule = _RULES.get(kind)
        return self.of_other(expr) if rule is None else rule(self, expr)

    def of_other(self, expr: ir.PrimExpr) -> Bound:
        """The bounds of an expression of another kind; subclasses may work them out themselves.

        (A function of the evaluator kept in itself would be a cycle, which lives for long.)
        """
        assert self._unknown is not None
        return self._unknown(expr)

    def of_var(self, var: ir.Var) -> Bound:
        return self.ranges.get(var, STILL)

    def of_remainder(self, dividend: ir.PrimExpr, divisor: int) -> Bound:
        """The bounds of `dividend % divisor`."""
        return remainder_bounds(self.of(dividend), divisor)

    def of_product(self, expr: ir.Mul) -> Bound:
        if not isinstance(expr.b, ir.IntImm):
            return self.of_other(expr)
        low, high = self.of(expr.a)
        factor = expr.b.value
        return (low * factor, high * factor) if factor >= 0 else (high * factor, low * factor)

    def of_division(self, expr: ir.FloorDiv | ir.FloorMod) -> Bound:
        if not isinstance(expr.b, ir.IntImm) or expr.b.value <= 0:
            return self.of_other(expr)
        divisor = expr.b.value
        if type(expr) is ir.FloorMod:
            return self.of_remainder(expr.a, divisor)
        low, high = self.of(expr.a)
        return low // divisor, high // divisor

    def of_cast(self, expr: ir.Cast) -> Bound:
        if expr.dtype.is_int and expr.value.dtype.is_int:
            return self.of(expr.value)
        return self.of_other(expr)

    def of_sum(self, expr: ir.Add) -> Bound:
        (a0, a1), (b0, b1) = self.of(expr.a), self.of(expr.b)
        return a0 + b0, a1 + b1

    def of_difference(self, expr: ir.Sub) -> Bound:
        (a0, a1), (b0, b1) = self.of(expr.a), self.of(expr.b)
        return a0 - b1, a1 - b0

    def of_extremum(self, expr: ir.Min | ir.Max) -> Bound:
        (a0, a1), (b0, b1) = self.of(expr.a), self.of(expr.b)
        pick = smaller if type(expr) is ir.Min else larger
        return pick(a0, b0), pick(a1, b1)


_RULES: dict[type, Callable[[RangeEvaluator, Any], Bound]] = {
    ir.SizeVar: lambda self, expr: self.of_var(expr),
    ir.IntImm: lambda _, expr: (expr.value, expr.value),
    ir.Add: RangeEvaluator.of_sum,
    ir.Sub: RangeEvaluator.of_difference,
    ir.Mul: RangeEvaluator.of_product,
    ir.FloorDiv: RangeEvaluator.of_division,
    ir.FloorMod: RangeEvaluator.of_division,
    ir.Min: RangeEvaluator.of_extremum,
    ir.Max: RangeEvaluator.of_extremum,
    ir.Cast: RangeEvaluator.of_cast,
}


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two numbers, or of each pair of two arrays."""
    return min(a, b) if type(a) is type(b) is int else np.minimum(a, b)


def larger(a: Any, b: Any) -> Any:
    """The larger of two numbers, or of each pair of two arrays."""
    return max(a, b) if type(a) is type(b) is int else np.maximum(a, b)


def is_any(condition: Any) -> bool:
    """True when a comparison of two numbers, or of any of two arrays, holds."""
    return condition if type(condition) is bool else bool(np.any(condition))


def remainder_bounds(dividend: Bound, divisor: int) -> Bound:
    """The bounds of a remainder: all of `0 .. divisor - 1`, unless the quotient stays the same."""
    low, high = dividend
    inside = low // divisor == high // divisor
    if type(inside) is bool:
        return (low % divisor, high % divisor) if inside else (0, divisor - 1)
    return np.where(inside, low % divisor, 0), np.where(inside, high % divisor, divisor - 1)
