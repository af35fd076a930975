"""Indices of stages as sums of digits, quotients and remainders included."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright import ir
from tilewright.algebra.expr import bounds, factors_of, floor_divide
from tilewright.algebra.loop_tree import Digit, NotInterpreted, Terms, roots_of
from tilewright.algebra.reach import DigitReaches, scaled, summed
from tilewright.arith.affine import affine_of
from tilewright.nest.quotients import EVERYTHING, Quotient

Iterators = Mapping[ir.Var, Terms]


def index_terms(iterators: Iterators, index: ir.PrimExpr) -> Terms:
    """An index over iterators as a sum of digits; its base does not matter."""
    parts: list[Terms] = []
    for term, scale in affine_of(index).terms.items():
        if isinstance(term, ir.Var) and term in iterators:
            parts.append(scaled(iterators[term], scale))
        else:
            parts.append(scaled(quotient_terms(iterators, term), scale))
    return summed(parts)


def quotient_terms(iterators: Iterators, term: ir.PrimExpr) -> Terms:
    """`x // below % extent`, or one of both: digits of `x` where these are cut there."""
    parts = Quotient.of(term)
    if parts is None:
        raise NotInterpreted(f"there is `{term}` in an index")
    x, below, extent = parts.x, parts.below, parts.extent
    if affine_of(x).base:
        raise NotInterpreted(f"`{term}` divides a sum with a constant")
    whole = index_terms(iterators, x)
    high, low = _cut(whole, below)
    if low is None:
        return {Digit(extent, whole, below, EVERYTHING): 1}
    quotient = {digit: floor_divide(stride, below) for digit, stride in high.items()}
    _, rest = _cut(quotient, extent)
    return {Digit(extent, quotient, 1, EVERYTHING): 1} if rest is None else rest


def _cut(terms: Terms, divisor: int) -> tuple[Terms, Terms | None]:
    """The multiples of a divisor in a sum, and the rest if that stays below the divisor."""
    high: Terms = {d: s for d, s in terms.items() if factors_of(s)[0] % divisor == 0}
    low = {d: s for d, s in terms.items() if d not in high}
    reach = DigitReaches(roots_of(low)).of(low)
    return high, low if bounds(reach)[1] < divisor else None
