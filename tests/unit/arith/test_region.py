"""Interval sets, regions, coverage, and solving conditions for a variable."""

from __future__ import annotations

import pytest

from tilewright.arith import (
    EVERYTHING,
    NOTHING,
    Analyzer,
    IntervalSet,
    covers,
    deduce_bound,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    eval_set,
    intersect,
    region_intersect,
    region_union,
    to_range,
    union,
)
from tilewright.errors import ArithError
from tilewright.ir import (
    TRUE,
    ExprLike,
    PrimExpr,
    Range,
    Select,
    SizeVar,
    Var,
    const,
    convert,
    logical_and,
    minimum,
)

i, j, x, y = Var("i"), Var("j"), Var("x"), Var("y")
n = SizeVar("n")
interval = IntervalSet.of


def _show(found: list[IntervalSet] | None) -> list[str] | None:
    return None if found is None else [str(bound).removeprefix("IntervalSet") for bound in found]


def _region(*dims: tuple[ExprLike, ExprLike]) -> list[Range]:
    return [Range(convert(first), convert(extent)) for first, extent in dims]


def _over(**extents: int) -> dict[Var, Range]:
    by_name = {"x": x, "y": y}
    return {by_name[k]: Range(const(0), const(e)) for k, e in extents.items()}


@pytest.mark.parametrize(
    ("region", "extents", "predicate", "strict", "upper"),
    [
        (_region((x * 4, 4)), {"x": 8}, TRUE, ["[0, 31]"], ["[0, 31]"]),
        (_region((x * 8, 4)), {"x": 8}, TRUE, None, ["[0, 59]"]),
        (_region((x * 4, 6)), {"x": 8}, TRUE, ["[0, 33]"], ["[0, 33]"]),
        (_region((x, 1), (x, 1)), {"x": 8}, TRUE, None, ["[0, 7]", "[0, 7]"]),
        (_region((x, 1), (3, 2)), {"x": 8}, TRUE, ["[0, 7]", "[3, 4]"], ["[0, 7]", "[3, 4]"]),
        (_region((x * 4 + y, 1)), {"x": 8, "y": 4}, x * 4 + y < 30, ["[0, 29]"], ["[0, 29]"]),
        (_region((x // 3, 1)), {"x": 8}, TRUE, ["[0, 2]"], ["[0, 2]"]),
        (_region((x + n, 1)), {"x": 8}, TRUE, ["[n, n + 7]"], ["[n, n + 7]"]),
        (_region((7 - x, 1)), {"x": 8}, TRUE, ["[0, 7]"], ["[0, 7]"]),
        (_region((minimum(x, 4), 1)), {"x": 8}, TRUE, None, ["[0, 4]"]),
        (_region((x - 1, 3)), {"x": 8}, TRUE, ["[-1, 8]"], ["[-1, 8]"]),
        (_region((x, y)), {"x": 8, "y": 4}, TRUE, None, ["[0, 9]"]),
        (_region((x, 1)), {"x": 8}, logical_and(x < 1, x * 2 < 0), None, ["[0, 7]"]),
        (_region((x % 2, 1)), {"x": 2}, x * 2 < 0, None, ["[0, 1]"]),
        (_region((x * -1 // 2, 1)), {"x": 4}, TRUE, None, ["[-2, 0]"]),
        (_region((x * -1 % 2, 1)), {"x": 4}, TRUE, None, ["[0, 1]"]),
        (_region((x * -4 // 2, 2)), {"x": 4}, TRUE, ["[-6, 1]"], ["[-6, 1]"]),
        (_region((x, 1)), {"x": 8}, logical_and(x < 1, x * 2 < 3), ["[0, 0]"], ["[0, 0]"]),
        (_region((x, 1)), {"x": 8}, x < n, ["[0, T.min(n, 8) - 1]"], ["[0, T.min(n, 8) - 1]"]),
    ],
)
def test_region_estimates(
    region: list[Range],
    extents: dict[str, int],
    predicate: PrimExpr,
    strict: list[str] | None,
    upper: list[str],
) -> None:
    domains = _over(**extents)
    assert _show(estimate_region_strict_bound(region, domains, predicate)) == strict
    assert _show(estimate_region_lower_bound(region, domains, predicate)) == strict
    assert _show(estimate_region_upper_bound(region, domains, predicate)) == upper


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (x + y, "[1, 15]"),
        (x * 2 - y, "[-5, 19]"),
        (x * n, "[0, n * 10]"),
        (x // 4, "[0, 2]"),
        (x % 4, "[0, 3]"),
        ((x + 40) % 64, "[40, 50]"),
        (minimum(x, y), "[0, 5]"),
        (Select(x < 3, x, y), "[0, 10]"),
        (x - x, "[0, 0]"),
        (n + 1, "[n + 1, n + 1]"),
        (x * y, "[0, 50]"),
        (x // y, "[-inf, inf]"),
    ],
)
def test_interval_evaluation(expr: PrimExpr, expected: str) -> None:
    domains = {x: interval(0, 10), y: interval(1, 5)}
    assert str(eval_set(expr, domains)) == f"IntervalSet{expected}"


def test_domains_that_depend_on_each_other() -> None:
    domains = {x: Range(y * 4, const(4)), y: Range(const(0), const(8))}
    assert str(eval_set(x + 1, domains)) == "IntervalSet[1, 32]"


def test_int_set_uses_bound_domains() -> None:
    analyzer = Analyzer()
    analyzer.bind(x, Range(const(0), n))
    assert str(analyzer.int_set(x * 2)) == "IntervalSet[0, n * 2 - 2]"


def test_union_and_intersection() -> None:
    assert str(union([interval(0, 3), interval(7, n + 9)])) == "IntervalSet[0, n + 9]"
    assert union([]) is NOTHING
    assert union([NOTHING, EVERYTHING]) is EVERYTHING
    assert str(intersect([interval(0, 5), interval(3, 9)])) == "IntervalSet[3, 5]"
    assert intersect([interval(0, 2), interval(3, 9)]) is NOTHING
    assert intersect([]).is_everything
    boxes = [[interval(0, 3), interval(0, 1)], [interval(2, 5), interval(1, 4)]]
    assert _show(region_union(boxes)) == ["[0, 5]", "[0, 4]"]
    assert _show(region_intersect(boxes)) == ["[2, 3]", "[1, 1]"]
    with pytest.raises(ArithError, match="different numbers of dimensions"):
        region_union([[interval(0, 3)], []])


def test_coverage() -> None:
    assert covers([interval(0, 9)], [interval(2, 9)])
    assert not covers([interval(0, 9)], [interval(2, 10)])
    assert covers([Range(const(0), n)], [Range(const(0), minimum(n, 8))])
    assert covers([EVERYTHING], [interval(0, n)])
    assert not covers([interval(0, n)], [EVERYTHING])
    assert covers([NOTHING], [NOTHING])
    with pytest.raises(ArithError, match="a region of 1 dimensions with one of 2"):
        covers([EVERYTHING], [EVERYTHING, EVERYTHING])


def test_intervals_as_ranges() -> None:
    domain = to_range(interval(n, n + 7))
    assert (str(domain.min), str(domain.extent)) == ("n", "8")
    with pytest.raises(ArithError, match="is not bounded on both sides and cannot be a range"):
        to_range(EVERYTHING)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (i + j < 10, "[-inf, 6]"),
        (i * 4 + j < 30, "[-inf, 6]"),
        (i * 4 + j >= 6, "[2, inf]"),
        (i * -2 + j < 6, "[-1, inf]"),
        ((i * 2 + j) // 4 < 3, "[-inf, 4]"),
        (i // 4 > 3, "[16, inf]"),
        (i < n, "[-inf, n - 1]"),
        (i + n <= 30, "[-inf, 30 - n]"),
        (5 - i < j, "[6, inf]"),
        (i * 4 > 6, "[2, inf]"),
        (j + 3 < n, "(nothing)"),
        (i % 4 < 3, "(nothing)"),
        (i * n < 30, "(nothing)"),
        (logical_and(i < n, i > 3), "(nothing)"),
    ],
)
def test_deduced_bounds(condition: PrimExpr, expected: str) -> None:
    found = deduce_bound(i, condition, {}, {j: interval(0, 3)})
    assert str(found) == f"IntervalSet{expected}"


def test_variables_that_are_only_hinted_at_stay_symbolic() -> None:
    found = deduce_bound(i, i * 4 + j < 30, {j: interval(0, 3)}, {})
    assert str(found) == "IntervalSet[-inf, (29 - j) // 4]"
