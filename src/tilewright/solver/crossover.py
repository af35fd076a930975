"""Children of two solutions by mixing what is tunable: many are tried, those that fit are kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.algebra.constraints import ConstraintProblem
from tilewright.solver.base import Columns, SolutionSpace
from tilewright.solver.completion import Completion
from tilewright.solver.residuals import violations

_TRIES = 24  # for each child
_DONORS = 512  # random solutions whose values replace one of a child's
_SIZES = (1, 2, 3, 4, 6, 8, 12)  # how many neighbouring knobs are the second parent's


class KnobCrossover:
    """Mixes the tunable variables of two parents; all others follow from them."""

    def __init__(self, space: SolutionSpace) -> None:
        self.space = space
        variables = enumerate(space.problem.variables)
        self.knobs = np.asarray(
            [place for place, variable in variables if variable.kind == "tunable"], dtype=np.int64
        )
        self._completion = Completion(space.problem, self.knobs.tolist())
        self._ranks = _neighbour_ranks(space.problem, self.knobs.tolist())

    @property
    def is_possible(self) -> bool:
        """True when all variables follow from those that are tunable."""
        return len(self.knobs) > 0 and not self._completion.missing

    def __call__(
        self,
        first: Columns,
        second: Columns,
        keys: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> tuple[Columns, NDArray[np.bool_]]:
        """For each pair a child, and whether one was found."""
        one, other = (np.repeat(parents, _TRIES, axis=0) for parents in (first, second))
        demanded = np.repeat(keys, _TRIES, axis=0)
        rows = self._completion.rows(self._mixed(one, other, demanded, rng))
        fits = ((rows == one) | (rows == other) | ~demanded).all(axis=1)
        fits &= (rows != one).any(axis=1) & (rows != other).any(axis=1)
        tried = np.flatnonzero(fits)
        fits[tried] = ~violations(self.space.problem, rows[tried]).any(axis=1)
        by_child = fits.reshape(len(first), _TRIES)
        chosen = by_child.argmax(axis=1) + np.arange(len(first)) * _TRIES
        return rows[chosen], by_child.any(axis=1)

    def _mixed(
        self,
        one: Columns,
        other: Columns,
        demanded: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> Columns:
        """The first parent with some neighbouring knobs of the second.

        Knobs that stand in the same products fit each other only together. A knob that may be
        anything is that of a random solution.
        """
        seeds = rng.integers(0, len(self.knobs), len(one))
        sizes = rng.choice(_SIZES, (len(one), 1))
        mixed = one.copy()
        taken = self._ranks[seeds] < sizes
        mixed[:, self.knobs] = np.where(taken, other[:, self.knobs], one[:, self.knobs])
        donors = self._donors[rng.integers(0, _DONORS, len(one))]
        place = self.knobs[rng.integers(0, len(self.knobs), len(one))]
        rows = np.arange(len(one))
        is_free = ~demanded[rows, place]
        mixed[rows[is_free], place[is_free]] = donors[rows[is_free], place[is_free]]
        return np.asarray(mixed)

    @cached_property
    def _donors(self) -> Columns:
        """Drawn for all who cross in this space, so none of their generators decides."""
        return self.space.sample(_DONORS, np.random.default_rng(0)).values


def _neighbour_ranks(problem: ConstraintProblem, knobs: list[int]) -> NDArray[np.int64]:
    """For each knob the places of all knobs in the order of their distance from it.

    The distance counts constraints on the way from one variable to the other.
    """
    names = [variable.name for variable in problem.variables]
    neighbours: dict[str, set[str]] = {name: set() for name in names}
    for constraint in problem.constraints:
        for name in constraint.names:
            neighbours[name].update(constraint.names)
    ranks = np.zeros((len(knobs), len(knobs)), dtype=np.int64)
    for row, knob in enumerate(knobs):
        distances = _distances(neighbours, names[knob])
        far = len(names)
        own = np.asarray([distances.get(names[other], far) for other in knobs])
        ranks[row, np.argsort(own, kind="stable")] = np.arange(len(knobs))
    return ranks


def _distances(neighbours: Mapping[str, set[str]], start: str) -> dict[str, int]:
    """How many steps all variables are away."""
    found = {start: 0}
    queue = deque([start])
    while queue:
        name = queue.popleft()
        for other in sorted(neighbours[name] - found.keys()):
            found[other] = found[name] + 1
            queue.append(other)
    return found
