"""SA: walks that change one knob at a time and sometimes accept what is worse."""

from __future__ import annotations

import numpy as np

from tilewright.search.constrained.base import ConstrainedStrategy, constrained_strategies
from tilewright.search.constrained.legality import KnobRows
from tilewright.solver.base import Columns


@constrained_strategies.register("sa")
class SimulatedAnnealing(ConstrainedStrategy):
    """As many walks as a population has; the temperature falls to nothing within a round."""

    kept = ("_walkers", "_seen_values")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._walkers = self.sample(self.settings.pop_num)
        self._rows = KnobRows(self.space, self.knobs)
        self._seen_values = self.sample(1000)  # which values a knob can take

    def _propose(self, count: int) -> Columns:
        steps = self.settings.iter_walks
        pool = self._walkers
        for step in range(steps):
            self._walk(self.settings.temperature * (1 - step / steps))
            pool = np.concatenate([pool, self._walkers])
        return self.batch(pool, count)

    def _walk(self, temperature: float) -> None:
        """One step of all walks; steps to what is not legal are not made."""
        walkers, columns = self._walkers, list(self.knobs)
        rows = np.arange(len(walkers))
        changed = self.rng.integers(0, len(columns), len(walkers))
        donors = self._seen_values[self.rng.integers(0, len(self._seen_values), len(walkers))]
        knobs = walkers[:, columns].copy()
        knobs[rows, changed] = donors[rows, np.asarray(columns)[changed]]
        moved, is_legal = self._rows.legal(knobs, self.rng)
        gain = self.predict(moved) - self.predict(walkers)
        chance = np.exp(np.minimum(gain, 0.0) / temperature)
        accepted = is_legal & (self.rng.random(len(walkers)) < chance)
        self._walkers = np.where(accepted[:, None], moved, walkers)
