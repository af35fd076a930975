"""`RandomModel`: scores that mean nothing, as a baseline."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tilewright.cost_model.base import CostModel, cost_models
from tilewright.cost_model.samples import read_arrays, write_arrays
from tilewright.records import Candidates, RunnerResults
from tilewright.schedule.trace.random import RandomEngine
from tilewright.space.base import TaskContext


@cost_models.register("random")
class RandomModel(CostModel):
    """Random scores below `max_range`; without a `seed` the task gives one."""

    def __init__(
        self, *, seed: int | None = None, path: str | None = None, max_range: int = 100
    ) -> None:
        self.max_range = max_range
        self._seed = seed
        self._random = RandomEngine(1 if seed is None else seed)
        if path is not None:
            self.load(path)
            self._seed = self._random.state

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        if self._seed is None:
            self._random = RandomEngine(context.rand_state)

    def update(self, context: TaskContext, candidates: Candidates, results: RunnerResults) -> None:
        """Nothing to learn."""

    def predict(self, context: TaskContext, candidates: Candidates) -> npt.NDArray[np.float64]:
        return np.array([self._random.canonical() * self.max_range for _ in candidates])

    def save(self, path: str) -> None:
        write_arrays(path, "random", state=np.array(self._random.state))

    def load(self, path: str) -> None:
        self._random.state = int(read_arrays(path, "random")["state"])


@cost_models.register("none")
def no_model() -> None:
    """No cost model: a search that needs none."""
