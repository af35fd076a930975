"""`GradientBased`: the next round goes where it promises to save the most time."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.errors import TuneError
from tilewright.schedule.trace.random import RandomEngine
from tilewright.tune.policy.base import TaskScheduler, task_schedulers
from tilewright.tune.task import FAILED_MS, TaskRecord

NOTHING_KNOWN = -1e9


@task_schedulers.register("gradient")
@dataclass
class GradientBased(TaskScheduler):
    """What a round may gain is guessed from the gains of the last `window_size` rounds.

    `alpha` weighs that against the share of its latency that a task would save if it went on as
    it did on average.
    """

    alpha: float = 0.2
    window_size: int = 3
    seed: int = -1
    _engine: RandomEngine = field(init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1 or self.window_size < 1:
            raise TuneError(
                f"GradientBased: alpha lies between 0 and 1 and window_size is at least 1, got "
                f"{self.alpha} and {self.window_size}"
            )
        self._engine = RandomEngine(self.seed)

    def next_task_id(self) -> int:
        alive = [n for n, task in enumerate(self.tasks) if not task.is_terminated]
        fresh = [n for n in alive if self.tasks[n].counts.rounds == 0]
        if fresh:
            return fresh[0]
        if not alive:
            return -1
        gains = [self._gain(self.tasks[n]) for n in alive]
        if max(gains) == min(gains):
            return alive[self._engine.integer(0, len(alive))]
        return alive[gains.index(max(gains))]

    def _gain(self, task: TaskRecord) -> float:
        best = task.counts.best_history
        if not best or best[-1] >= FAILED_MS:
            return NOTHING_KNOWN
        count, window = len(best), self.window_size
        recent = (best[-1 - window] - best[-1]) / window if count >= 1 + window else 0.0
        average = best[-1] / count
        return (self.alpha * recent + (1 - self.alpha) * average) * task.task_weight
