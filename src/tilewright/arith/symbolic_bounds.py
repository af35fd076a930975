"""Bounds of index expressions whose loop variables range over intervals.

The ends are affine forms of whatever stays symbolic, so that `i .. i + 3` has length 4 for any `i`.
This serves the regions of blocks; the analyzer answers the harder questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright import ir
from tilewright.arith.affine import Affine, affine_of
from tilewright.arith.interning import Interner


class UnboundedError(Exception):
    """The bounds of an expression cannot be expressed."""


class SymbolicInterval(NamedTuple):
    """The integers from `low` to `high`, both included."""

    low: Affine
    high: Affine
    dtype: ir.DType
    point: ir.PrimExpr | None = None  # the expression itself where it is a single value

    def plus(self, other: SymbolicInterval) -> SymbolicInterval:
        low, high = self.low.plus(other.low), self.high.plus(other.high)
        return SymbolicInterval(low, high, self.dtype)

    def times(self, factor: int) -> SymbolicInterval:
        ends = self.low.times(factor), self.high.times(factor)
        low, high = ends if factor >= 0 else ends[::-1]
        return SymbolicInterval(low, high, self.dtype)

    def widened(self, before: int, after: int) -> SymbolicInterval:
        """With some more integers on both sides."""
        low, high = Affine({}, before, True), Affine({}, after, True)
        return SymbolicInterval(self.low.plus(low, -1), self.high.plus(high), self.dtype)

    def to_range(self) -> ir.Range:
        """The same integers as a range."""
        if self.point is not None:
            return ir.Range(self.point, ir.const(1, self.point.dtype))
        length = self.high.plus(self.low, -1).plus(Affine({}, 1, True))
        return ir.Range(expr_of(self.low, self.dtype), expr_of(length, self.dtype))


def expr_of(form: Affine, dtype: ir.DType) -> ir.PrimExpr:
    """The same sum as an expression, in the order in which its terms were met."""
    result: ir.PrimExpr = ir.const(0, dtype)
    for term, scale in form.terms.items():
        result = result + term * scale if scale >= 0 else result - term * -scale
    base: int = form.base
    return result + base if base >= 0 else result - -base


class SymbolicBounds:
    """The bounds of expressions while the variables in `domains` take all their values.

    A domain of None is unknown.
    """

    def __init__(self) -> None:
        self.domains: dict[ir.Var, SymbolicInterval | None] = {}
        self._interner = Interner()  # equal terms are one, so that differences cancel

    def of(self, expr: ir.PrimExpr) -> SymbolicInterval:
        """The bounds of `expr`; raises UnboundedError."""
        domains = self.domains
        moves = bool(domains) and ir.uses_var(expr, domains.__contains__)
        if not moves and expr.dtype.lanes == 1:
            form = self._form(expr)
            return SymbolicInterval(form, form, expr.dtype, expr)
        match expr:
            case ir.Var():
                domain = domains.get(expr)
                if domain is not None:
                    return domain
            case ir.Add(a=a, b=b):
                return self.of(a).plus(self.of(b))
            case ir.Sub(a=a, b=b):
                return self.of(a).plus(self.of(b).times(-1))
            case ir.Mul(a=a, b=ir.IntImm(value=factor)) | ir.Mul(a=ir.IntImm(value=factor), b=a):
                return self.of(a).times(factor)
            case ir.FloorDiv(a=a, b=ir.IntImm(value=divisor)) if divisor > 0:
                return self._quotient(self.of(a), divisor)
            case ir.FloorMod(a=a, b=ir.IntImm(value=divisor)) if divisor > 0:
                return _remainder(self.of(a), divisor)
            case ir.Min(a=a, b=b) | ir.Max(a=a, b=b):
                left, right, is_min = self.of(a), self.of(b), isinstance(expr, ir.Min)
                low = self._chosen(is_min, left.low, right.low, left.dtype)
                high = self._chosen(is_min, left.high, right.high, left.dtype)
                return SymbolicInterval(low, high, left.dtype)
        return self._of_vector_or_choice(expr)

    def _of_vector_or_choice(self, expr: ir.PrimExpr) -> SymbolicInterval:
        match expr:
            case ir.Ramp(base=base, stride=ir.IntImm(value=stride), lanes=lanes):
                reach = (lanes - 1) * stride
                return self.of(base).widened(-min(reach, 0), max(reach, 0))
            case ir.Broadcast(value=value):
                return self.of(value)
            case (
                ir.Select(true_value=a, false_value=b)
                | ir.Call(op=ir.Op(name="tir.if_then_else"), args=(_, a, b))
            ):
                return self.hull([self.of(a), self.of(b)])
        raise UnboundedError

    def hull(self, intervals: Sequence[SymbolicInterval]) -> SymbolicInterval:
        """The smallest interval around all of them."""
        result = intervals[0]
        for item in intervals[1:]:
            are_points = result.point is not None and item.point is not None
            if are_points and _number(result.low.plus(item.low, -1)) == 0:
                continue
            low = self._chosen(True, result.low, item.low, result.dtype)
            high = self._chosen(False, result.high, item.high, result.dtype)
            result = SymbolicInterval(low, high, result.dtype)
        return result

    def _form(self, expr: ir.PrimExpr) -> Affine:
        if type(expr) is ir.Var:  # most indices
            return Affine({expr: 1}, 0, True)
        form = affine_of(expr)
        if form.is_plain:
            return form
        total = Affine({}, form.base, True)
        for term, scale in form.terms.items():
            total = total.plus(Affine({self._interner.intern(term): scale}))
        return total

    def _quotient(self, dividend: SymbolicInterval, divisor: int) -> SymbolicInterval:
        ends = (expr_of(end, dividend.dtype) for end in (dividend.low, dividend.high))
        low, high = (self._form(ir.floordiv(end, divisor)) for end in ends)
        return SymbolicInterval(low, high, dividend.dtype)

    def _chosen(self, is_min: bool, left: Affine, right: Affine, dtype: ir.DType) -> Affine:
        """The smaller or the larger one."""
        difference = _number(left.plus(right, -1))
        if difference is None:
            build = ir.minimum if is_min else ir.maximum
            return self._form(build(expr_of(left, dtype), expr_of(right, dtype)))
        return left if difference == 0 or (difference < 0) == is_min else right


def _number(form: Affine) -> int | None:
    """The number that a form without terms is."""
    return None if form.terms else int(form.base)


def _remainder(dividend: SymbolicInterval, divisor: int) -> SymbolicInterval:
    low, high = _number(dividend.low), _number(dividend.high)
    if low is not None and high is not None and low // divisor == high // divisor:
        ends = low % divisor, high % divisor
    else:
        ends = 0, divisor - 1
    return SymbolicInterval(Affine({}, ends[0]), Affine({}, ends[1]), dividend.dtype)
