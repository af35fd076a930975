"""Indices of stages as sums of digits, quotients and remainders included."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright import ir
from tilewright.algebra.expr import Value, bounds, factors_of, floor_divide
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


def quotient_terms(iterators: Iterators, term: ir.PrimExpr, *, by_terms: bool = False) -> Terms:
    """`x // below % extent`, or one of both: digits of `x` where these are cut there.

    `by_terms`: where they are not, as few terms as possible are divided together, so that some of
    them may run and others stand still.
    """
    parts = Quotient.of(term)
    if parts is None:
        raise NotInterpreted(f"there is `{term}` in an index")
    x, below, extent = parts.x, parts.below, parts.extent
    if affine_of(x).base:
        raise NotInterpreted(f"`{term}` divides a sum with a constant")
    whole = index_terms(iterators, x)
    high, low = _cut(whole, below)
    if by_terms and (low is None or (below == 1 and _cut(whole, extent)[1] is None)):
        taken_apart = _on_grid(whole, below, extent)
        if taken_apart is not None:
            return taken_apart
    if low is None:
        return {Digit(extent, whole, below, EVERYTHING): 1}
    quotient = {digit: floor_divide(stride, below) for digit, stride in high.items()}
    _, rest = _cut(quotient, extent)
    return {Digit(extent, quotient, 1, EVERYTHING): 1} if rest is None else rest


def _on_grid(terms: Terms, below: int, extent: int) -> Terms | None:
    """`terms // below % extent` where strides are numbers; None where they say nothing of it.

    What is a multiple of the divisor comes out of it. Of the rest, terms that lie on a grid are
    divided, and those in between stay as they are.
    """
    numbers = {digit: stride for digit, stride in terms.items() if isinstance(stride, int)}
    if extent == EVERYTHING or len(numbers) < len(terms):
        return None
    period = below * extent
    left = {digit: stride for digit, stride in numbers.items() if stride % period}
    if below > 1:
        if _most(left) >= period:
            return None
        extent = EVERYTHING
    out = {digit: stride // below for digit, stride in left.items() if stride % below == 0}
    rest = left if below == 1 else {d: s for d, s in left.items() if d not in out}
    out = {} if below == 1 else out
    for grid in sorted({abs(stride) for stride in rest.values()}, reverse=True):
        on = {digit: stride // grid for digit, stride in rest.items() if stride % grid == 0}
        between = {digit: stride for digit, stride in rest.items() if digit not in on}
        if (below if below > 1 else extent) % grid or _most(between) >= grid:
            continue
        if below > 1:
            return {**out, Digit(EVERYTHING, on, below // grid, EVERYTHING): 1}
        return {**between, Digit(extent // grid, on, 1, EVERYTHING): grid}
    return None


def _most(terms: Mapping[Digit, Value]) -> int:
    """The largest value of a sum."""
    return bounds(DigitReaches(roots_of(terms)).of(terms))[1]


def _cut(terms: Terms, divisor: int) -> tuple[Terms, Terms | None]:
    """The multiples of a divisor in a sum, and the rest if that stays below the divisor."""
    high: Terms = {d: s for d, s in terms.items() if factors_of(s)[0] % divisor == 0}
    low = {d: s for d, s in terms.items() if d not in high}
    return high, low if _most(low) < divisor else None
