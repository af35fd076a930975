"""IDEA: evolution that keeps some of what is not legal, for good things lie near the border.

Scores and violations are two objectives: individuals are sorted by how many dominate them and by
how alone they are. A fifth of each population is infeasible ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.search.constrained.base import ConstrainedStrategy, constrained_strategies
from tilewright.search.constrained.legality import Individuals
from tilewright.solver.base import Columns

_INFEASIBLE_SHARE = 0.2
_CROSSOVER_INDEX = 15.0
_MUTATION_INDEX = 20.0
_MUTATION_CHANCE = 0.1


@constrained_strategies.register("idea")
class InfeasibilityDriven(ConstrainedStrategy):
    """Simulated binary crossover and polynomial mutation on places in domains."""

    kept = ("_population", "_seen_values")

    def __post_init__(self) -> None:
        super().__post_init__()
        # Domains may be wide; the values that solutions take are what evolution moves among.
        self._seen_values = self.sample(1000)
        self._population = self._seen_values[: self.settings.pop_num]

    def _propose(self, count: int) -> Columns:
        measured = self.best_measured(self.settings.history_topk)
        population = Individuals.of(self.space, np.concatenate([self._population, measured]))
        self._values = [np.unique(column) for column in self._seen_values.T]
        legal = [population.legal]
        for _ in range(self.settings.iter_walks):
            children = Individuals.of(self.space, self._children(population.values))
            legal.append(children.legal)
            population = self._survivors(population.beside(children))
        self._population = population.values
        return self.batch(np.concatenate(legal), count)

    def _survivors(self, everyone: Individuals) -> Individuals:
        """The best of the infeasible ones and the best of the others."""
        size = self.settings.pop_num
        infeasible = np.flatnonzero(everyone.violation > 0)
        feasible = np.flatnonzero(everyone.violation == 0)
        wanted = min(len(infeasible), max(int(_INFEASIBLE_SHARE * size), size - len(feasible)))
        kept = [
            self._sorted(everyone, infeasible)[:wanted],
            self._sorted(everyone, feasible)[: size - wanted],
        ]
        return everyone.at(np.concatenate(kept))

    def _sorted(self, everyone: Individuals, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places by how many dominate them, the lonely first among equals."""
        part = everyone.at(places)
        scores, violation = self.predict(part.values), part.violation
        better = (scores[:, None] >= scores) & (violation[:, None] <= violation)
        strictly = (scores[:, None] > scores) | (violation[:, None] < violation)
        dominators = (better & strictly).sum(axis=0)
        return places[np.lexsort((-_crowding(scores, violation), dominators))]

    def _children(self, values: Columns) -> Columns:
        count = self.settings.pop_num
        picked = self.rng.integers(0, len(values), (2, count))
        places = np.stack(
            [
                np.searchsorted(known, column).clip(max=len(known) - 1)
                for known, column in zip(self._values, values.T, strict=True)
            ],
            axis=1,
        ).astype(np.float64)
        mixed = self._mutated(self._crossed(places[picked[0]], places[picked[1]]))
        columns = [
            known[np.rint(column).astype(np.int64).clip(0, len(known) - 1)]
            for known, column in zip(self._values, mixed.T, strict=True)
        ]
        return np.stack(columns, axis=1)

    def _crossed(
        self, first: NDArray[np.float64], second: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Simulated binary crossover: children lie near one parent or the other."""
        chance = self.rng.random(first.shape)
        power = 1.0 / (_CROSSOVER_INDEX + 1.0)
        spread = np.where(
            chance <= 0.5, (2 * chance) ** power, (1 / (2 * (1 - chance) + 1e-12)) ** power
        )
        return np.asarray(0.5 * ((1 + spread) * first + (1 - spread) * second))

    def _mutated(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Polynomial mutation: small steps are likelier than large ones."""
        widths = np.array([len(known) - 1 for known in self._values], dtype=np.float64)
        chance = self.rng.random(places.shape)
        power = 1.0 / (_MUTATION_INDEX + 1.0)
        step = np.where(chance < 0.5, (2 * chance) ** power - 1, 1 - (2 * (1 - chance)) ** power)
        hit = self.rng.random(places.shape) < _MUTATION_CHANCE
        return np.where(hit, places + step * widths, places)


def _crowding(scores: NDArray[np.float64], violation: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far the neighbours of each are away, over both objectives."""
    distance = np.zeros(len(scores))
    for objective in (scores, violation):
        if not len(objective):
            continue
        order = np.argsort(objective, kind="stable")
        span = float(np.ptp(objective)) or 1.0
        gaps = np.full(len(order), np.inf)
        gaps[1:-1] = (objective[order[2:]] - objective[order[:-2]]) / span
        distance[order] += gaps
    return distance
