"""Numbers that may not be a solution: which are, and by how much the others miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.solver.array_solver import ArraySpace
from tilewright.solver.base import NO_HINT, Columns
from tilewright.solver.completion import Completion
from tilewright.solver.residuals import violations


@dataclass(frozen=True, eq=False)
class Individuals:
    """Rows of numbers, and the sum of what they lack of each constraint; 0: a solution."""

    values: Columns
    violation: NDArray[np.float64]

    @classmethod
    def of(cls, space: ArraySpace, values: Columns) -> Individuals:
        """Judge rows."""
        return cls(values, violations(space.problem, values).sum(axis=1))

    @property
    def legal(self) -> Columns:
        """The solutions among them."""
        return np.asarray(self.values[self.violation == 0])

    def at(self, places: NDArray[np.int64]) -> Individuals:
        """Some of them."""
        return Individuals(self.values[places], self.violation[places])

    def beside(self, other: Individuals) -> Individuals:
        """Both together."""
        return Individuals(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.violation, other.violation]),
        )


def one_point(first: Columns, second: Columns, rng: np.random.Generator) -> Columns:
    """Children with the first columns of one parent and the others of the second."""
    cut = rng.integers(1, max(2, first.shape[1]), (len(first), 1))
    return np.where(np.arange(first.shape[1]) < cut, first, second)


class KnobRows:
    """Rows of all variables from values of the knobs."""

    def __init__(self, space: ArraySpace, columns: Sequence[int]) -> None:
        self.space = space
        self.columns = list(columns)
        self._completion = Completion(space.problem, self.columns)

    def legal(self, knobs: Columns, rng: np.random.Generator) -> tuple[Columns, NDArray[np.bool_]]:
        """The rows, and which of them are solutions."""
        hints = np.full((len(knobs), len(self.space.names)), NO_HINT)
        hints[:, self.columns] = knobs
        if self._completion.missing:  # something beside the knobs is open: look for any value
            rows = self.space.repair(hints, rng).values
            return rows, (rows[:, self.columns] == knobs).all(axis=1)
        rows = self._completion.rows(hints)
        return rows, violations(self.space.problem, rows).sum(axis=1) == 0
