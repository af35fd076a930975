"""GA: one-point crossover and a mutated knob; children that are not legal count for nothing."""

from __future__ import annotations

import numpy as np

from tilewright.search.constrained.base import ConstrainedStrategy, constrained_strategies
from tilewright.search.constrained.legality import KnobRows, one_point
from tilewright.solver.base import Columns


@constrained_strategies.register("ga")
class PlainGenetic(ConstrainedStrategy):
    """A genetic algorithm that knows constraints only as a check afterwards."""

    kept = ("_population", "_seen_values")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._population = self.sample(self.settings.pop_num)
        self._rows = KnobRows(self.space, self.knobs)
        self._seen_values = self.sample(1000)  # which values a knob can take

    def _propose(self, count: int) -> Columns:
        population = np.concatenate(
            [self._population, self.best_measured(self.settings.history_topk)]
        )
        pool = population
        for _ in range(self.settings.iter_walks):
            children = self._children(self.roulette(population, self.settings.select_num))
            pool = np.concatenate([pool, children])
            population = self.best_predicted(pool, self.settings.pop_num)
        self._population = population
        return self.batch(pool, count)

    def _children(self, parents: Columns) -> Columns:
        """The legal ones of as many children as a population has."""
        count, columns = self.settings.pop_num, list(self.knobs)
        first, second = (parents[self.rng.integers(0, len(parents), count)] for _ in range(2))
        knobs = one_point(first[:, columns], second[:, columns], self.rng)
        mutated = self.rng.integers(0, len(columns), count)
        donors = self._seen_values[self.rng.integers(0, len(self._seen_values), count)]
        rows = np.arange(count)
        knobs[rows, mutated] = donors[rows, np.asarray(columns)[mutated]]
        made, is_legal = self._rows.legal(knobs, self.rng)
        return made[is_legal]
