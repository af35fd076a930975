"""Distances of rows of numbers from satisfying each constraint, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from tilewright.algebra import constraints
from tilewright.solver.base import Columns
from tilewright.solver.domains import value_set

Column = Callable[[constraints.Term], NDArray[np.float64]]
Residual = NDArray[np.float64]


def violations(problem: constraints.ConstraintProblem, values: Columns) -> Residual:
    """A row a row of numbers, a column a constraint; then one for all domains. 0: satisfied."""
    places = {variable.name: place for place, variable in enumerate(problem.variables)}

    def column(term: constraints.Term) -> Residual:
        if isinstance(term, str):
            return values[:, places[term]].astype(np.float64)
        return np.full(len(values), float(term))

    found = [residual(constraint, column) for constraint in problem.constraints]
    outside = np.zeros(len(values))
    for variable, own in zip(problem.variables, values.T, strict=True):
        outside += ~value_set(variable.domain).contains(own)
    return np.stack([*found, outside], axis=1)


@singledispatch
def residual(constraint: constraints.Constraint, column: Column) -> Residual:
    """How far each row is from satisfying a constraint."""
    raise TypeError(f"no solver knows constraints of type {type(constraint).__name__}")


@residual.register
def _(constraint: constraints.Prod, column: Column) -> Residual:
    product = np.prod([column(term) for term in (1, *constraint.factors)], axis=0)
    return np.asarray(np.abs(column(constraint.result) - product))


@residual.register
def _(constraint: constraints.Sum, column: Column) -> Residual:
    total = np.sum([column(term) for term in (0, *constraint.addends)], axis=0)
    return np.asarray(np.abs(column(constraint.result) - total))


@residual.register
def _(constraint: constraints.Eq, column: Column) -> Residual:
    return np.abs(column(constraint.left) - column(constraint.right))


@residual.register
def _(constraint: constraints.Le, column: Column) -> Residual:
    return np.maximum(0.0, column(constraint.left) - column(constraint.right))


@residual.register
def _(constraint: constraints.In, column: Column) -> Residual:
    allowed = np.asarray(sorted(constraint.values), dtype=np.float64)
    own = column(constraint.variable)
    right = np.searchsorted(allowed, own).clip(max=len(allowed) - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.minimum(np.abs(allowed[left] - own), np.abs(allowed[right] - own))
    return np.asarray(nearest)


@residual.register
def _(constraint: constraints.SelectFrom, column: Column) -> Residual:
    choices = np.stack([column(term) for term in constraint.choices])
    index = column(constraint.index)
    near = index.clip(0, len(choices) - 1).astype(np.int64)
    chosen = choices[near, np.arange(choices.shape[1])]
    return np.asarray(np.abs(column(constraint.result) - chosen) + np.abs(index - near))


@residual.register
def _(constraint: constraints.CeilDiv, column: Column) -> Residual:
    divisor = column(constraint.divisor)
    pieces = np.ceil(column(constraint.dividend) / np.maximum(divisor, 1.0))
    return np.asarray(np.abs(column(constraint.result) - pieces) + np.maximum(0.0, 1.0 - divisor))


@residual.register
def _(constraint: constraints.MinOf, column: Column) -> Residual:
    least = np.min([column(term) for term in constraint.operands], axis=0)
    return np.asarray(np.abs(column(constraint.result) - least))


@residual.register
def _(constraint: constraints.MaxOf, column: Column) -> Residual:
    most = np.max([column(term) for term in constraint.operands], axis=0)
    return np.asarray(np.abs(column(constraint.result) - most))
