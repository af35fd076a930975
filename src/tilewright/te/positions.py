"""Reductions to the position of the best value: of two (position, value) pairs one is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tilewright.ir import (
    PrimExpr,
    Select,
    equal,
    greater,
    less,
    logical_and,
    logical_or,
    not_equal,
)

Values: TypeAlias = Sequence[PrimExpr]
Compare: TypeAlias = Callable[[PrimExpr, PrimExpr], PrimExpr]
Combine: TypeAlias = Callable[[Values, Values], tuple[PrimExpr, ...]]


def keep_better(better: Compare, last: bool = False) -> Combine:
    """The pair with the better value; NaN is better than all, and the first of equals (or last)."""
    before = greater if last else less

    def combine(x: Values, y: Values) -> tuple[PrimExpr, ...]:
        wins, ties = better(x[1], y[1]), equal(x[1], y[1])
        if x[1].dtype.is_float:
            undefined, also = not_equal(x[1], x[1]), not_equal(y[1], y[1])
            wins = logical_or(wins, logical_and(undefined, equal(y[1], y[1])))
            ties = logical_or(ties, logical_and(undefined, also))
        kept = logical_or(wins, logical_and(ties, before(x[0], y[0])))
        return Select(kept, x[0], y[0]), Select(wins, x[1], y[1])

    return combine
