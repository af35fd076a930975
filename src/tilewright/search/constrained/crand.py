"""CRAND: random solutions, the most promising ones measured."""

from __future__ import annotations

from tilewright.search.constrained.base import ConstrainedStrategy, constrained_strategies
from tilewright.solver.base import Columns


@constrained_strategies.register("crand")
class ConstrainedRandom(ConstrainedStrategy):
    """As many samples a round as CGA makes children, ranked by the model."""

    def _propose(self, count: int) -> Columns:
        drawn = self.sample(self.settings.pop_num * self.settings.iter_walks)
        return self.batch(drawn, count)
