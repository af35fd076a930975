"""Small problems whose solutions can all be listed."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter

from tilewright.algebra import constraints as c

ORIGIN = "a test"


@functools.cache
def listed(problem: c.ConstraintProblem) -> set[tuple[int, ...]]:
    """All solutions, by trying everything."""
    names = [variable.name for variable in problem.variables]
    return {
        row
        for row in itertools.product(*(variable.domain for variable in problem.variables))
        if not any(True for _ in problem.broken_by(dict(zip(names, row, strict=True))))
    }


def tiles() -> c.ConstraintProblem:
    """Tiles of 12 with a limit on their sum, and a choice between them."""
    numbers = [c.IntegerVariable(name, (1, 2, 3, 4, 5, 6, 12)) for name in "abc"]
    more = [
        c.IntegerVariable("m", range(4, 15)),
        c.IntegerVariable("u", range(3)),
        c.IntegerVariable("s", (1, 2, 3, 4, 6, 7)),
    ]
    return c.ConstraintProblem(
        (*numbers, *more),
        (
            c.Prod(ORIGIN, 12, ("a", "b", "c")),
            c.Sum(ORIGIN, "m", ("a", "b", "c")),
            c.Le(ORIGIN, "m", 10),
            c.SelectFrom(ORIGIN, "s", "u", ("a", "b", "c")),
            c.In(ORIGIN, "a", (1, 2, 3, 4, 6)),
        ),
    )


def imperfect_tiles() -> c.ConstraintProblem:
    """Tiles of 7 that need not divide it, and the smaller and larger of two numbers."""
    names = ("tile", "pieces", "other", "least", "most")
    return c.ConstraintProblem(
        tuple(c.IntegerVariable(name, range(1, 8)) for name in names),
        (
            c.CeilDiv(ORIGIN, "pieces", 7, "tile"),
            c.MinOf(ORIGIN, "least", ("pieces", "other", "tile")),
            c.MaxOf(ORIGIN, "most", ("pieces", "other")),
            c.Le(ORIGIN, "most", 5),
            c.Eq(ORIGIN, "least", 2),
        ),
    )


def repeated() -> c.ConstraintProblem:
    """A square, and equal variables."""
    return c.ConstraintProblem(
        tuple(c.IntegerVariable(name, range(10)) for name in ("x", "y", "z", "w")),
        (
            c.Prod(ORIGIN, "x", ("y", "y")),
            c.Eq(ORIGIN, "z", "y"),
            c.Sum(ORIGIN, "w", ("z", "y", 1)),
        ),
    )


def chosen_chain() -> c.ConstraintProblem:
    """Two choices with one index and one with another, as stages inside others have."""
    return c.ConstraintProblem(
        (
            *(c.IntegerVariable(name, (1, 2, 4, 8)) for name in ("o", "i", "o2", "i2", "e", "f")),
            c.IntegerVariable("p", range(2)),
            c.IntegerVariable("q", range(2)),
        ),
        (
            c.Prod(ORIGIN, 8, ("o", "i")),
            c.Prod(ORIGIN, "i", ("o2", "i2")),
            c.SelectFrom(ORIGIN, "e", "p", ("i", "i2")),
            c.SelectFrom(ORIGIN, "f", "q", ("i", 1)),
            c.Le(ORIGIN, "p", "q"),
        ),
    )


SMALL = {
    "tiles": tiles,
    "imperfect": imperfect_tiles,
    "repeated": repeated,
    "choices": chosen_chain,
}


def chi_square_z(counts: Counter[tuple[int, ...]], cells: int) -> float:
    """How many standard deviations the chi-square statistic is above its mean."""
    mean = sum(counts.values()) / cells
    missing = (cells - len(counts)) * mean
    statistic = missing + sum((n - mean) ** 2 / mean for n in counts.values())
    return (statistic - (cells - 1)) / math.sqrt(2 * (cells - 1))
