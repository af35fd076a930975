"""Quotients and remainders in indices: `x // below % extent`, and how loops step through them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tilewright import ir
from tilewright.arith.affine import Affine, affine_of, used_vars
from tilewright.arith.ranges import RangeEvaluator, is_any

EVERYTHING = 1 << 62  # more than any index


class Quotient(NamedTuple):
    """`x // below % extent`; an extent of `EVERYTHING` takes no remainder."""

    x: ir.PrimExpr
    below: int
    extent: int

    @staticmethod
    def of(term: ir.PrimExpr) -> Quotient | None:
        """The parts of a term; `x % m // b` is one where `b` divides `m`. None: it is none."""
        match term:
            case ir.FloorMod(a=ir.FloorDiv(a=x, b=ir.IntImm(value=b)), b=ir.IntImm(value=m)):
                return Quotient(x, b, m)
            case ir.FloorDiv(a=ir.FloorMod(a=x, b=ir.IntImm(value=m)), b=ir.IntImm(value=b)) if (
                m % b == 0
            ):
                return Quotient(x, b, m // b)
            case ir.FloorMod(a=x, b=ir.IntImm(value=m)):
                return Quotient(x, 1, m)
            case ir.FloorDiv(a=x, b=ir.IntImm(value=b)):
                return Quotient(x, b, EVERYTHING)
        return None

    @property
    def period(self) -> int:
        """What `x` may grow by and leave it as it is."""
        return EVERYTHING if self.extent == EVERYTHING else self.below * self.extent


class Joined(NamedTuple):
    """`x // c * (c * f) + x % c * f`, which is `x * f`."""

    x: Affine
    factor: int

    @staticmethod
    def of(parts: Sequence[tuple[ir.PrimExpr, int]], running: RangeEvaluator) -> Joined | None:
        """The number whose digits some terms with factors are; None for all else."""
        digits = sorted(
            ((made, factor) for term, factor in parts if (made := Quotient.of(term)) is not None),
            key=lambda digit: digit[0].below,
        )
        if len(digits) < max(1, len(parts)):
            return None
        first, factor = digits[0]
        if first.below != 1 or not _is_whole(digits):
            return None
        last = digits[-1][0]
        if last.extent != EVERYTHING and is_any(running.of(first.x)[1] >= last.period):
            return None
        return Joined(affine_of(first.x), factor)

    def stride(self, var: ir.Var) -> int | None:
        """By how much each step of a loop moves it; None where some steps differ."""
        if any(var in used_vars(term) for term in _irregular(self.x)):
            return None
        step: int = self.x.terms.get(var, 0)
        return step * self.factor


def _is_whole(digits: Sequence[tuple[Quotient, int]]) -> bool:
    """True for all digits of one number, times the same factor."""
    factor = digits[0][1]
    follow = all(
        outer.below == inner.period and (outer.x is inner.x or ir.expr_deep_equal(outer.x, inner.x))
        for (inner, _), (outer, _) in itertools.pairwise(digits)
    )
    return follow and all(times == factor * digit.below for digit, times in digits)


def step_of(term: ir.PrimExpr, var: ir.Var, running: RangeEvaluator) -> int | None:
    """By how much each step of a loop moves a quotient; None where some steps differ.

    `running` says where variables lie while all loops run.
    """
    quotient = Quotient.of(term)
    if quotient is None:
        return None
    form = affine_of(quotient.x)
    step: int = form.terms.get(var, 0)
    if any(var in used_vars(other) for other in _irregular(form)):
        return None
    if step <= 0 or step % quotient.below:
        return None
    if quotient.extent == EVERYTHING:
        return step // quotient.below
    if step % quotient.period == 0:
        return 0
    carries = all(_reaches(grid, form, var, running) for grid in _grids(quotient, form, var))
    return None if carries else step // quotient.below


def _irregular(form: Affine) -> list[ir.PrimExpr]:
    return [term for term in form.terms if not isinstance(term, ir.Var)]


def _grids(quotient: Quotient, form: Affine, var: ir.Var) -> Iterator[int]:
    """Distances that divide the period, at whose multiples other terms may lie."""
    yield quotient.period
    for term, scale in form.terms.items():
        if term is not var and quotient.period % scale == 0:
            yield abs(scale)


def _reaches(grid: int, form: Affine, var: ir.Var, running: RangeEvaluator) -> bool:
    """True when a loop, with what is not on a grid, may get from one of its points to the next."""
    total: Any = form.base % grid
    for term, scale in form.terms.items():
        if term is not var and scale % grid == 0:
            continue
        low, high = running.of(term)
        if scale < 0 or is_any(low < 0):
            return True
        total = total + scale * high
    return is_any(total >= grid)
