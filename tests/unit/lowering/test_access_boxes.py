"""Boxes of accesses against all elements that the loops really reach."""

from __future__ import annotations

import itertools
import math

from hypothesis import given, settings, strategies as st

from tilewright.arith import Analyzer
from tilewright.ir import (
    PrimExpr,
    Range,
    Var,
    const,
    constant_value,
    decl_buffer,
    floordiv,
    floormod,
    substitute,
)
from tilewright.lowering.access_boxes import Box, Boxes, Domains

LOOPS = [Var(name) for name in "ijk"]
SHAPE = (7, 6)


@st.composite
def sums(draw: st.DrawFn) -> PrimExpr:
    """Such as `2 * i + j - 1`."""
    total: PrimExpr = const(draw(st.integers(-2, 3)))
    for var in LOOPS:
        factor = draw(st.sampled_from([0, 0, 1, 1, 2, 3, -1]))
        total = total + var * factor
    return total


@st.composite
def indices(draw: st.DrawFn) -> PrimExpr:
    total = draw(sums())
    match draw(st.sampled_from(["plain", "plain", "quotient", "remainder"])):
        case "quotient":
            return floordiv(total, draw(st.integers(2, 4)))
        case "remainder":
            return floormod(total, draw(st.integers(2, 4)))
    return total


@st.composite
def comparisons(draw: st.DrawFn) -> PrimExpr:
    value, bound = draw(sums()), draw(st.integers(-1, 7))
    return draw(st.sampled_from([value < bound, value >= bound, value <= bound, bound < value]))


def number(expr: PrimExpr, point: dict[Var, PrimExpr]) -> int:
    value = constant_value(Analyzer().simplify(substitute(expr, point)))
    assert value is not None
    return int(value)


def reached(
    axes: list[Range], domains: Domains, tests: list[PrimExpr], fixed: dict[Var, PrimExpr]
) -> set[tuple[int, ...]]:
    """All elements that are accessed."""
    found: set[tuple[int, ...]] = set()
    extents = [range(number(domain.extent, fixed)) for domain in domains.values()]
    for numbers in itertools.product(*extents):
        point = {**fixed, **dict(zip(domains, map(const, numbers), strict=True))}
        if not all(number(test, point) for test in tests):
            continue
        spans = [
            range(start, start + number(axis.extent, point))
            for axis in axes
            for start in [number(axis.min, point)]
        ]
        found.update(itertools.product(*spans))
    return found


def elements(box: Box, fixed: dict[Var, PrimExpr]) -> set[tuple[int, ...]]:
    spans = []
    for span in box:
        low = max(number(bound, fixed) for bound in span.lows)
        high = min(number(bound, fixed) for bound in span.highs)
        spans.append(range(low, high + 1))
    return set(itertools.product(*spans))


def is_box(found: set[tuple[int, ...]]) -> bool:
    spans = [range(min(axis), max(axis) + 1) for axis in zip(*found, strict=True)]
    return bool(found) and len(found) == math.prod(map(len, spans))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_boxes(data: st.DataObject) -> None:
    """`within` holds no element that is not accessed, `around` all that are inside the buffer."""
    standing = data.draw(st.integers(0, 1), label="loops that stand still")
    extents = [data.draw(st.integers(1, 4)) for _ in LOOPS]
    analyzer = Analyzer()
    for var, extent in zip(LOOPS, extents, strict=True):
        analyzer.bind(var, Range(const(0), const(extent)))
    domains: Domains = {
        var: Range(const(0), const(extent))
        for var, extent in list(zip(LOOPS, extents, strict=True))[standing:]
    }
    axes = [
        Range(data.draw(indices()), const(data.draw(st.sampled_from([1, 1, 1, 2])))) for _ in SHAPE
    ]
    tests = data.draw(st.lists(comparisons(), max_size=2))
    boxes = Boxes(analyzer)
    inner = boxes.within(axes, domains, tests)
    outer = boxes.around(decl_buffer(SHAPE, name="A"), axes, domains, tests)
    inside = set(itertools.product(*map(range, SHAPE)))
    for value in range(extents[0] if standing else 1):
        fixed = {LOOPS[0]: const(value)} if standing else {}
        found = reached(axes, domains, tests, fixed)
        assert found & inside <= elements(outer, fixed)
        if inner is not None:
            assert elements(inner, fixed) <= found
        if not standing and is_box(found):
            assert inner is not None
            assert elements(inner, fixed) == found
