"""Sets of values and regions while loops run: exact and outer bounds, unions, coverage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from tilewright import ir
from tilewright.arith.analyzer import Analyzer
from tilewright.arith.interval import (
    DomainMap,
    IntervalSet,
    as_interval,
    evaluate,
    intersection_of,
    union_of,
)
from tilewright.arith.iter_map import IterMapLevel, IterSumExpr
from tilewright.arith.iter_map_detect import detect_iter_map
from tilewright.errors import ArithError

__all__ = [
    "eval_set", "union", "intersect", "estimate_region_strict_bound", "estimate_region_lower_bound",
    "estimate_region_upper_bound", "region_union", "region_intersect", "covers", "to_range",
]  # fmt: skip

Region: TypeAlias = Sequence[ir.Range]
Bounds: TypeAlias = list[IntervalSet]


def eval_set(
    expr: ir.ExprLike | ir.Range, domains: DomainMap, analyzer: Analyzer | None = None
) -> IntervalSet:
    """An interval that holds every value of `expr` while the variables range over `domains`."""
    return evaluate(expr, domains, analyzer or Analyzer())


def union(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """The smallest interval around all sets."""
    return union_of(sets, analyzer or Analyzer())


def intersect(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """The interval that all sets share."""
    return intersection_of(sets, analyzer or Analyzer())


def estimate_region_strict_bound(
    region: Region,
    var_dom: Mapping[ir.Var, ir.Range],
    predicate: ir.ExprLike = ir.TRUE,
    analyzer: Analyzer | None = None,
) -> Bounds | None:
    """Exactly the union of `region` over the domains, one interval per dimension; None if unknown.

    The dimensions must vary independently of each other and leave no gaps.
    """
    for domain in region:
        if ir.uses_var(domain.extent, var_dom.__contains__):
            return None
    starts = [domain.min for domain in region]
    found = detect_iter_map(starts, var_dom, predicate, IterMapLevel.SURJECTIVE)
    if found.errors:
        return None
    checker = analyzer or Analyzer()
    bounds = []
    for total, domain in zip(found.indices, region, strict=True):
        bound = _exact_interval(total, domain.extent, checker)
        if bound is None:
            return None
        bounds.append(bound)
    return bounds


# A part of what a region touches for sure: all of it, where that is known.
estimate_region_lower_bound = estimate_region_strict_bound


def estimate_region_upper_bound(
    region: Region,
    var_dom: Mapping[ir.Var, ir.Range],
    predicate: ir.ExprLike = ir.TRUE,
    analyzer: Analyzer | None = None,
) -> Bounds:
    """Intervals around everything that `region` touches."""
    exact = estimate_region_strict_bound(region, var_dom, predicate, analyzer)
    if exact is not None:
        return exact
    checker = analyzer or Analyzer()
    bounds = []
    for domain in region:
        single = None
        if len(region) > 1:
            single = estimate_region_strict_bound([domain], var_dom, predicate, checker)
        bounds.append(single[0] if single is not None else eval_set(domain, var_dom, checker))
    return bounds


def _exact_interval(
    total: IterSumExpr, extent: ir.PrimExpr, analyzer: Analyzer
) -> IntervalSet | None:
    """The values of `total + [0, extent)`, when the steps of `total` leave no gaps."""
    last = ir.subtract(ir.add(total.base, extent), 1)
    if not total.args:
        return IntervalSet(analyzer.simplify(total.base), analyzer.simplify(last))
    (split,) = total.args
    if not isinstance(split.scale, ir.IntImm):
        return None
    step = split.scale.value
    if step == 0 or not analyzer.can_prove(extent >= abs(step)):
        return None
    way = ir.multiply(ir.subtract(split.extent, 1), split.scale)
    low = total.base if step > 0 else ir.add(total.base, way)
    high = ir.add(last, way) if step > 0 else last
    return IntervalSet(analyzer.simplify(low), analyzer.simplify(high))


def region_union(regions: Sequence[Bounds], analyzer: Analyzer | None = None) -> Bounds:
    """The smallest box around several boxes."""
    checker = analyzer or Analyzer()
    return [union(dims, checker) for dims in _by_dimension(regions)]


def region_intersect(regions: Sequence[Bounds], analyzer: Analyzer | None = None) -> Bounds:
    """The box that several boxes share."""
    checker = analyzer or Analyzer()
    return [intersect(dims, checker) for dims in _by_dimension(regions)]


def _by_dimension(regions: Sequence[Bounds]) -> list[tuple[IntervalSet, ...]]:
    ranks = sorted({len(region) for region in regions})
    if len(ranks) > 1:
        raise ArithError(f"regions with different numbers of dimensions: {ranks}")
    return list(zip(*regions, strict=True))


def covers(
    outer: Sequence[IntervalSet | ir.Range],
    inner: Sequence[IntervalSet | ir.Range],
    analyzer: Analyzer | None = None,
) -> bool:
    """True only if the box `outer` surely holds the box `inner`."""
    checker = analyzer or Analyzer()
    if len(outer) != len(inner):
        raise ArithError(
            f"cannot compare a region of {len(outer)} dimensions with one of {len(inner)}"
        )
    pairs = zip(map(as_interval, outer), map(as_interval, inner), strict=True)
    return all(_holds(big, small, checker) for big, small in pairs)


def _holds(big: IntervalSet, small: IntervalSet, analyzer: Analyzer) -> bool:
    if small.is_nothing or big.is_everything:
        return True
    if big.is_nothing:
        return False
    if big.has_lower_bound and not (
        small.has_lower_bound and analyzer.can_prove(small.min_value >= big.min_value)
    ):
        return False
    return not big.has_upper_bound or (
        small.has_upper_bound and analyzer.can_prove(small.max_value <= big.max_value)
    )


def to_range(bound: IntervalSet, analyzer: Analyzer | None = None) -> ir.Range:
    """A bounded interval as a range."""
    if not (bound.has_lower_bound and bound.has_upper_bound):
        raise ArithError(f"{bound} is not bounded on both sides and cannot be a range")
    simplify = (analyzer or Analyzer()).simplify
    extent = simplify(ir.add(ir.subtract(bound.max_value, bound.min_value), 1))
    return ir.Range(ir.convert(bound.min_value), extent)
