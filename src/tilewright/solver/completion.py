"""All variables of a problem from some of them: constraints with one unknown are solved for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from tilewright.algebra import constraints
from tilewright.solver.base import Columns

Column = NDArray[np.int64]
ColumnOf = Callable[[constraints.Term], Column]
NO_VALUE = -1  # of what nothing fits


class Completion:
    """The order in which unknown variables follow from known ones."""

    def __init__(self, problem: constraints.ConstraintProblem, known: Sequence[int]) -> None:
        self.problem = problem
        self._places = {variable.name: n for n, variable in enumerate(problem.variables)}
        names = [problem.variables[place].name for place in known]
        found = {v.name for v in problem.variables if len(v.domain) == 1} | {*names}
        self._fixed = {v.name: v.domain[0] for v in problem.variables if len(v.domain) == 1}
        self.steps: list[tuple[constraints.Constraint, str]] = []
        waiting = list(problem.constraints)
        while waiting:
            ready = [c for c in waiting if len({*c.names} - found) <= 1]
            if not ready:
                break
            for constraint in ready:
                waiting.remove(constraint)
                for name in {*constraint.names} - found:
                    if _can_solve(constraint, name):
                        self.steps.append((constraint, name))
                        found.add(name)
        self.missing = tuple(name for name in self._places if name not in found)

    def rows(self, values: Columns) -> Columns:
        """The rows with everything that follows; what nothing fits is `NO_VALUE`."""
        result = values.copy()
        for name, value in self._fixed.items():
            result[:, self._places[name]] = value

        def column(term: constraints.Term) -> Column:
            if isinstance(term, str):
                return np.asarray(result[:, self._places[term]])
            return np.full(len(result), term, dtype=np.int64)

        for constraint, name in self.steps:
            result[:, self._places[name]] = _solved(constraint, name, column)
        return np.asarray(result)


def _can_solve(constraint: constraints.Constraint, name: str) -> bool:
    """True when the constraint says what a variable is once all others are known."""
    if isinstance(constraint, constraints.SelectFrom):
        if constraint.terms.count(name) > 1:
            return False
        is_table = all(isinstance(term, int) for term in constraint.choices)
        return name == constraint.result or (name == constraint.index and is_table)
    if isinstance(constraint, constraints.CeilDiv | constraints.MinOf | constraints.MaxOf):
        return name == constraint.result and constraint.terms.count(name) == 1
    if isinstance(constraint, constraints.Prod | constraints.Sum | constraints.Eq):
        return constraint.terms.count(name) == 1
    return False


@singledispatch
def _solved(constraint: constraints.Constraint, name: str, column: ColumnOf) -> Column:
    raise TypeError(f"constraints of type {type(constraint).__name__} define no variable")


@_solved.register
def _(constraint: constraints.Prod, name: str, column: ColumnOf) -> Column:
    others = [column(term) for term in constraint.factors if term != name]
    product = np.prod([column(1), *others], axis=0)
    if constraint.result == name:
        return np.asarray(product)
    whole = column(constraint.result)
    divisor = np.where(product == 0, 1, product)
    fits = (product != 0) & (whole % divisor == 0)
    return np.where(fits, whole // divisor, NO_VALUE)


@_solved.register
def _(constraint: constraints.Sum, name: str, column: ColumnOf) -> Column:
    total = np.sum([column(0), *(column(t) for t in constraint.addends if t != name)], axis=0)
    return np.asarray(total if constraint.result == name else column(constraint.result) - total)


@_solved.register
def _(constraint: constraints.Eq, name: str, column: ColumnOf) -> Column:
    return column(constraint.right if constraint.left == name else constraint.left)


@_solved.register
def _(constraint: constraints.SelectFrom, name: str, column: ColumnOf) -> Column:
    choices = np.stack([column(term) for term in constraint.choices])
    if name == constraint.index:
        equal = choices == column(constraint.result)
        return np.where(equal.any(axis=0), equal.argmax(axis=0), NO_VALUE)
    index = column(constraint.index)
    chosen = choices[index.clip(0, len(choices) - 1), np.arange(choices.shape[1])]
    return np.where((index >= 0) & (index < len(choices)), chosen, NO_VALUE)


@_solved.register
def _(constraint: constraints.CeilDiv, name: str, column: ColumnOf) -> Column:
    divisor = column(constraint.divisor)
    pieces = -(-column(constraint.dividend) // np.where(divisor > 0, divisor, 1))
    return np.where(divisor > 0, pieces, NO_VALUE)


@_solved.register
def _(constraint: constraints.MinOf, name: str, column: ColumnOf) -> Column:
    return np.asarray(np.min([column(term) for term in constraint.operands], axis=0))


@_solved.register
def _(constraint: constraints.MaxOf, name: str, column: ColumnOf) -> Column:
    return np.asarray(np.max([column(term) for term in constraint.operands], axis=0))
