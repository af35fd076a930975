"""Ranges of indices agree with running all iterations."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from hypothesis import assume, given, settings, strategies as st

from tilewright.arith import Analyzer
from tilewright.ir import (
    INT32,
    TRUE,
    IntImm,
    PrimExpr,
    Var,
    const,
    floordiv,
    floormod,
    less,
    substitute,
)
from tilewright.nest.index_ranges import IndexRanges, Unbounded, ends_of_digit

A, B, C, OUTER = (Var(name, INT32) for name in ("a", "b", "c", "outer"))


def value(expr: PrimExpr, values: Mapping[Var, int]) -> int:
    numbers = {var: const(number) for var, number in values.items()}
    result = Analyzer().simplify(substitute(expr, numbers))
    return int(result.value)  # type: ignore[attr-defined]


def digit(draw: st.DrawFn, expr: PrimExpr) -> PrimExpr:
    for _ in range(draw(st.integers(0, 2))):
        number = draw(st.integers(1, 9))
        expr = floordiv(expr, number) if draw(st.booleans()) else floormod(expr, number)
    return expr


@st.composite
def cases(draw: st.DrawFn) -> tuple[PrimExpr, dict[Var, tuple[int, int]], PrimExpr]:
    """An index over three loops, their domains, and a condition that may cut off the end."""
    extents = [draw(st.integers(1, 4)) for _ in range(3)]
    domains = {var: (0, extent) for var, extent in zip((A, B, C), extents, strict=True)}
    counter: PrimExpr = (A * extents[1] + B) * extents[2] + C
    index = digit(draw, counter) * draw(st.integers(-2, 3)) + OUTER
    if draw(st.booleans()):
        index = index + digit(draw, B) * draw(st.integers(1, 3)) + A
    bound = draw(st.integers(1, 70))
    predicate = less(counter, bound) if draw(st.booleans()) else TRUE
    return index, domains, predicate


def all_values(
    index: PrimExpr, domains: Mapping[Var, tuple[int, int]], predicate: PrimExpr
) -> list[int]:
    points = itertools.product(*(range(low, low + count) for low, count in domains.values()))
    chosen = (dict(zip(domains, point, strict=True)) for point in points)
    return [
        value(index, {**values, OUTER: 0})
        for values in chosen
        if predicate is TRUE or value(predicate, values)
    ]


@given(cases())
@settings(max_examples=60, deadline=None)
def test_ranges_are_those_of_all_iterations(
    case: tuple[PrimExpr, dict[Var, tuple[int, int]], PrimExpr],
) -> None:
    index, domains, predicate = case
    found = IndexRanges(domains, {}, predicate).of(index)
    expected = all_values(index, domains, predicate)
    assert found.origin == {OUTER: 1}
    assert (found.low, found.low + found.extent - 1) == (min(expected), max(expected))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_digits_take_all_values_between_their_ends(data: st.DataObject) -> None:
    extents = [data.draw(st.integers(1, 4)) for _ in range(3)]
    domains = {var: (0, extent) for var, extent in zip((A, B, C), extents, strict=True)}
    counter: PrimExpr = (A * extents[1] + B) * extents[2] + C
    expr = data.draw(st.composite(digit)(counter))
    assume(not isinstance(expr, IntImm))  # the remainder modulo 1
    # The condition is on the counter, or on its leading digits.
    lead = data.draw(st.booleans())
    bound = data.draw(st.integers(1, 30))
    condition = less(A * extents[1] + B, bound) if lead else less(counter, bound)
    ends = ends_of_digit(expr, domains, [condition])
    expected = all_values(expr, domains, condition)
    assert ends == (min(expected), max(expected))
    assert set(expected) == set(range(ends[0], ends[1] + 1))


def test_values_that_depend_on_other_loops_are_not_known() -> None:
    ranges = IndexRanges({A: (0, 4)}, {})
    try:
        ranges.of(floordiv(A + OUTER, 2))
    except Unbounded:
        return
    raise AssertionError("how far the index moves depends on the outer loop")
