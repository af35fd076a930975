"""Two iterations of a parallel loop that write different values to one element.

The first iterations are tried out on numbers, so whatever is found has really happened.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright import ir
from tilewright.arith.affine import affine_in
from tilewright.arith.numpy_eval import Values, evaluate_on_arrays
from tilewright.errors import ArithError
from tilewright.lowering.rewriters import FoldingSubstituter

Bounds = tuple[int, int]  # inclusive

_INNER_POINTS = 256
_POINTS = 2048


@dataclass(frozen=True)
class Witness:
    """Two iterations of the loop, and the element that both write."""

    first: int
    second: int
    element: tuple[int, ...]


@dataclass(frozen=True)
class ParallelStore:
    """A store inside a parallel loop, and all that decides where and whether it happens."""

    store: ir.BufferStore
    guards: tuple[ir.PrimExpr, ...]
    loop_var: ir.Var
    inner: frozenset[ir.Var]  # loops inside the parallel one
    ranges: Mapping[ir.Var, Bounds | None]  # of all loops around the store


def find_witness(case: ParallelStore) -> Witness | None:
    """Proof of a race, or None if there is none among the iterations tried."""
    if _each_iteration_has_its_own(case):
        return None
    points = _points(case)
    if points is None:
        return None
    try:
        indices = [evaluate_on_arrays(index, points) for index in case.store.indices]
        runs = [evaluate_on_arrays(guard, points) for guard in case.guards]
    except ArithError:
        return None  # depends on data
    shape = points[case.loop_var].shape
    chosen = np.ones(shape, bool)
    for run in runs:
        chosen &= np.asarray(run, bool)
    elements = np.stack([np.broadcast_to(index, shape)[chosen] for index in indices])
    return _compare(case, {var: values[chosen] for var, values in points.items()}, elements)


def _each_iteration_has_its_own(case: ParallelStore) -> bool:
    """The quick answer for the usual case: some index moves on by more than inner loops cover."""
    moving = case.inner | {case.loop_var}
    for index in case.store.indices:
        found = affine_in(index, moving.__contains__)
        if found is None:
            continue
        form = found[0]
        step = abs(form.terms.get(case.loop_var, 0))
        reach = sum(
            abs(factor) * (_value_count(case.ranges.get(var)) - 1)
            for var, factor in form.variable_terms()
            if var is not case.loop_var
        )
        if step > reach:
            return True
    return False


def _value_count(bounds: Bounds | None) -> float:
    return math.inf if bounds is None else bounds[1] - bounds[0] + 1


def _points(case: ParallelStore) -> dict[ir.Var, Values] | None:
    """Values of all variables in the first iterations; what lies outside stays at its start."""
    exprs = (*case.store.indices, *case.guards)
    used = {case.loop_var, *(var for expr in exprs for var in ir.free_vars(expr))}
    bounds = {var: found for var in used if (found := case.ranges.get(var)) is not None}
    if len(bounds) < len(used) or any(_value_count(found) < 1 for found in bounds.values()):
        return None
    counts = {
        var: bounds[var][1] - bounds[var][0] + 1 if var in case.inner else 1
        for var in used
        if var is not case.loop_var
    }
    while math.prod(counts.values()) > _INNER_POINTS:
        widest = max(counts, key=counts.__getitem__)
        counts[widest] //= 2
    low, high = bounds[case.loop_var]
    counts[case.loop_var] = min(high - low + 1, _POINTS // math.prod(counts.values()))
    axes = [np.arange(count, dtype=np.int64) + bounds[var][0] for var, count in counts.items()]
    grids = np.meshgrid(*axes, indexing="ij")
    return {var: grid.ravel() for var, grid in zip(counts, grids, strict=True)}


def _compare(case: ParallelStore, points: dict[ir.Var, Values], elements: Values) -> Witness | None:
    """The first element that two iterations write with different values."""
    iteration = points[case.loop_var]
    if len(iteration) == 0:
        return None
    order = np.lexsort((iteration, *elements))
    ordered = elements[:, order]
    same_element = np.all(ordered[:, 1:] == ordered[:, :-1], axis=0)
    other_iteration = iteration[order][1:] != iteration[order][:-1]
    for place in np.flatnonzero(same_element & other_iteration)[:16]:
        first, second = order[place], order[place + 1]
        values = [
            {var: int(numbers[at]) for var, numbers in points.items()} for at in (first, second)
        ]
        if _values_differ(case.store, *values):
            element = tuple(map(int, elements[:, first]))
            return Witness(int(iteration[first]), int(iteration[second]), element)
    return None


def _values_differ(
    store: ir.BufferStore, first: dict[ir.Var, int], second: dict[ir.Var, int]
) -> bool:
    """True if the stored values are not the same expression, or build on what is stored already."""
    if any(
        load.buffer.data is store.buffer.data for load in ir.nodes_of(store.value, ir.BufferLoad)
    ):
        return True
    return not ir.expr_deep_equal(_at(store.value, first), _at(store.value, second))


def _at(value: ir.PrimExpr, numbers: dict[ir.Var, int]) -> ir.PrimExpr:
    fixed = {var: ir.const(number, var.dtype) for var, number in numbers.items()}
    return FoldingSubstituter(fixed).rewrite(value)
