"""Distances of rows of numbers from satisfying each constraint, as arrays."""

from __future__ import annotations

import numpy as np

from tilewright.algebra import constraints
from tilewright.solver.base import Columns
from tilewright.solver.domains import value_set
from tilewright.solver.forms import Residual, form_of


def violations(problem: constraints.ConstraintProblem, values: Columns) -> Residual:
    """A row a row of numbers, a column a constraint; then one for all domains. 0: satisfied."""
    places = {variable.name: place for place, variable in enumerate(problem.variables)}

    def column(term: constraints.Term) -> Residual:
        if isinstance(term, str):
            return values[:, places[term]].astype(np.float64)
        return np.full(len(values), float(term))

    found = [form_of(each).residual(each, column) for each in problem.constraints]
    outside = np.zeros(len(values))
    for variable, own in zip(problem.variables, values.T, strict=True):
        outside += ~value_set(variable.domain).contains(own)
    return np.stack([*found, outside], axis=1)
