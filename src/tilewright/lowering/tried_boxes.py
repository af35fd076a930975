"""Boxes of elements that an access reaches, found by running through its loops on numbers.

For what no rule covers, such as the digits of a sum that a test ends early. Axes that share no loop
are tried out on their own, so that few points suffice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.arith.numpy_eval import Values, evaluate_on_arrays
from tilewright.errors import ArithError
from tilewright.ir import Add, IntImm, PrimExpr, Range, Var, const, free_vars, uses_var

_POINTS = 1 << 14

Bounds = tuple[PrimExpr, PrimExpr]  # inclusive


@dataclass
class _Group:
    """Axes, by their positions, and tests that depend on the same loops."""

    loops: set[Var]
    axes: list[int]
    tests: list[PrimExpr]


def try_out(
    axes: Sequence[Range], domains: Mapping[Var, Range], tests: Sequence[PrimExpr]
) -> list[Bounds] | None:
    """The bounds of the elements that are accessed, if these are a box; otherwise None."""
    if any(var not in domains for test in tests for var in free_vars(test)):
        return None
    bounds: dict[int, Bounds] = {}
    for group in _groups(axes, domains, tests):
        found = _box_of([axes[place] for place in group.axes], group, domains)
        if found is None:
            return None
        bounds.update(zip(group.axes, found, strict=True))
    return [bounds[place] for place in range(len(axes))]


def holds_everywhere(claim: PrimExpr, domains: Mapping[Var, Range]) -> bool:
    """Whether a condition is true for all values of its variables, if these are few."""
    points = _points(domains)
    if points is None:
        return False
    try:
        return bool(np.all(evaluate_on_arrays(claim, points)))
    except ArithError:
        return False


def _groups(
    axes: Sequence[Range], domains: Mapping[Var, Range], tests: Sequence[PrimExpr]
) -> list[_Group]:
    groups = [_Group(_loops_in(axis.min, domains), [place], []) for place, axis in enumerate(axes)]
    groups += [_Group(_loops_in(test, domains), [], [test]) for test in tests]
    apart: list[_Group] = []
    for group in groups:
        for other in [other for other in apart if not other.loops.isdisjoint(group.loops)]:
            apart.remove(other)
            loops = other.loops | group.loops
            group = _Group(loops, other.axes + group.axes, other.tests + group.tests)
        apart.append(group)
    return apart


def _loops_in(expr: PrimExpr, domains: Mapping[Var, Range]) -> set[Var]:
    return {var for var in free_vars(expr) if var in domains}


def _box_of(
    axes: Sequence[Range], group: _Group, domains: Mapping[Var, Range]
) -> list[Bounds] | None:
    points = _points({var: domains[var] for var in group.loops})
    parts = [_moving_and_fixed(axis.min, domains) for axis in axes]
    sizes = [axis.extent.value for axis in axes if isinstance(axis.extent, IntImm)]
    if points is None or len(sizes) < len(axes):
        return None
    count = max((len(values) for values in points.values()), default=1)
    try:
        runs = [evaluate_on_arrays(test, points) for test in group.tests]
        starts = [
            np.broadcast_to(evaluate_on_arrays(moving, points), (count,)) for moving, _ in parts
        ]
    except ArithError:
        return None
    chosen = np.ones(count, bool)
    for run in runs:
        chosen &= np.asarray(run, bool)
    if not chosen.any():
        return None
    if not axes:
        return []  # something is accessed; where does not depend on these loops
    return _bounds_of(np.stack(starts)[:, chosen], sizes, [fixed for _, fixed in parts])


def _points(domains: Mapping[Var, Range]) -> dict[Var, Values] | None:
    """All combinations of the values of loops."""
    ranges = []
    for domain in domains.values():
        if not (isinstance(domain.min, IntImm) and isinstance(domain.extent, IntImm)):
            return None
        ranges.append(range(domain.min.value, domain.min.value + domain.extent.value))
    if math.prod(map(len, ranges)) > _POINTS:
        return None
    grids = np.meshgrid(*(np.array(each, np.int64) for each in ranges), indexing="ij")
    return {var: grid.ravel() for var, grid in zip(domains, grids, strict=True)}


def _moving_and_fixed(index: PrimExpr, domains: Mapping[Var, Range]) -> tuple[PrimExpr, PrimExpr]:
    """An index as a sum of what depends on loops and what stands still."""
    zero = const(0, index.dtype)
    if not uses_var(index, domains.__contains__):
        return zero, index
    if isinstance(index, Add):
        (a, b), (c, d) = (_moving_and_fixed(part, domains) for part in (index.a, index.b))
        return a + c, b + d
    return index, zero


def _bounds_of(
    starts: Values, sizes: Sequence[int], fixed: Sequence[PrimExpr]
) -> list[Bounds] | None:
    """The ends of all `[start, start + size)`, if these boxes leave no gaps in one box."""
    if starts.shape[1] * math.prod(sizes) > _POINTS:
        return None
    steps = np.meshgrid(*(np.arange(size) for size in sizes), indexing="ij")
    inside = np.stack([step.ravel() for step in steps])
    elements = (starts[:, :, None] + inside[:, None, :]).reshape(len(sizes), -1)
    lows, highs = elements.min(axis=1), elements.max(axis=1)
    if len(np.unique(elements, axis=1).T) != math.prod((highs - lows + 1).tolist()):
        return None
    return [
        (base + const(int(low), base.dtype), base + const(int(high), base.dtype))
        for base, low, high in zip(fixed, lows, highs, strict=True)
    ]
