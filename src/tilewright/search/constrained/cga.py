"""CGA, the constrained genetic algorithm of Heron.

Two parents make a child by a constraint problem, not by cutting their values apart: the variables
that matter most must take the value of one parent or the other, all others may take any that fits.
Leaving out that demand for one of them is the mutation. Both parents solve the problem of a child,
so there always is one, and it is legal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.search.constrained.base import ConstrainedStrategy, constrained_strategies
from tilewright.solver.base import Columns

_KEPT_OF_POOL = 20


@constrained_strategies.register("cga")
class ConstrainedGenetic(ConstrainedStrategy):
    """Key variables by importance, crossover by constraint, mutation by dropping one."""

    kept = ("_survivors",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._survivors: Columns = self.points

    def _propose(self, count: int) -> Columns:
        population = self._population()
        pool = population
        if self.model.is_trained:
            keys = self._key_variables()
            for _ in range(self.settings.iter_walks):
                children = self._children(population, keys)
                pool = np.concatenate([pool, children])
                best = self.best_predicted(pool, _KEPT_OF_POOL)
                population = np.concatenate([children, best])
        self._survivors = population
        return self.batch(pool, count)

    def _population(self) -> Columns:
        """The most promising of survivors, the best measured ones and random ones."""
        size = self.settings.pop_num
        measured = self.best_measured(self.settings.history_topk)
        everyone = np.concatenate([self._survivors, measured, self.sample(size)])
        return self.best_predicted(everyone, size)

    def _key_variables(self) -> NDArray[np.int64]:
        """The columns that matter most to the model."""
        importance = self.model.importance(self.rng)
        count = self._key_count()
        return np.argsort(-importance, kind="stable")[:count]

    def _key_count(self) -> int:
        return max(1, round(self.settings.crossover_key_ratio * len(self.space.names)))

    def _children(self, population: Columns, keys: NDArray[np.int64]) -> Columns:
        """As many as a population has, of parents by roulette."""
        chosen = self.roulette(population, self.settings.select_num)
        count = self.settings.pop_num
        first, second = (chosen[self.rng.integers(0, len(chosen), count)] for _ in range(2))
        demanded = np.zeros((count, len(self.space.names)), dtype=bool)
        demanded[:, keys] = True
        demanded[np.arange(count), self.rng.choice(keys, count)] = False  # the mutation
        return self.space.children(first, second, demanded, self.rng).values
