"""SRGA: a genetic algorithm that ranks what is not legal by chance, among the others.

Stochastic ranking: neighbours are compared by score if both are legal, or else with a probability
of 0.45; by how much they violate constraints in all other cases.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.search.constrained.base import ConstrainedStrategy, constrained_strategies
from tilewright.search.constrained.legality import Individuals, one_point
from tilewright.solver.base import Columns

_CHANCE = 0.45
_SWEEPS = 10


@constrained_strategies.register("srga")
class StochasticRankingGenetic(ConstrainedStrategy):
    """One-point crossover over all variables; only what happens to be legal is measured."""

    kept = ("_population",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._population = self.sample(self.settings.pop_num)

    def _propose(self, count: int) -> Columns:
        measured = self.best_measured(self.settings.history_topk)
        population = Individuals.of(self.space, np.concatenate([self._population, measured]))
        legal = [population.legal]
        for _ in range(self.settings.iter_walks):
            order = self._ranking(population)
            children = Individuals.of(self.space, self._children(population.values[order]))
            legal.append(children.legal)
            best = population.at(order[: self.settings.pop_num // 2])
            population = best.beside(children)
        survivors = self._ranking(population)[: self.settings.pop_num]
        self._population = population.values[survivors]
        return self.batch(np.concatenate(legal), count)

    def _ranking(self, population: Individuals) -> NDArray[np.int64]:
        """The order of individuals, best first, after some sweeps of chance."""
        scores = self.predict(population.values).tolist()
        violation = population.violation.tolist()
        order = list(range(len(scores)))
        for _ in range(_SWEEPS):
            chances = self.rng.random(len(order)).tolist()
            for place in range(len(order) - 1):
                left, right = order[place : place + 2]
                both_legal = violation[left] == violation[right] == 0
                if both_legal or chances[place] < _CHANCE:
                    is_wrong = scores[left] < scores[right]
                else:
                    is_wrong = violation[left] > violation[right]
                if is_wrong:
                    order[place : place + 2] = [right, left]
        return np.asarray(order, dtype=np.int64)

    def _children(self, ranked: Columns) -> Columns:
        """Parents by rank; one variable of each child is that of a random solution."""
        count = self.settings.pop_num
        weights = np.arange(len(ranked), 0, -1, dtype=np.float64)
        picked = self.rng.choice(len(ranked), (2, count), p=weights / weights.sum())
        children = one_point(ranked[picked[0]], ranked[picked[1]], self.rng)
        donors, rows = self.sample(count), np.arange(count)
        place = self.rng.integers(0, children.shape[1], count)
        children[rows, place] = donors[rows, place]
        return children
