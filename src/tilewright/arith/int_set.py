"""Interval sets for callers that have no analyzer at hand."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.interval import (
    DomainMap,
    IntervalSet,
    evaluate,
    intersection_of,
    union_of,
)
from tilewright.ir import ExprLike, Range


def eval_set(
    expr: ExprLike | Range, domains: DomainMap, analyzer: Analyzer | None = None
) -> IntervalSet:
    """An interval that holds every value of `expr` while the variables range over `domains`."""
    return evaluate(expr, domains, analyzer or Analyzer())


def union(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """The smallest interval around all sets."""
    return union_of(sets, analyzer or Analyzer())


def intersect(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """The interval that all sets share."""
    return intersection_of(sets, analyzer or Analyzer())
