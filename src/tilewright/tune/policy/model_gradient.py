"""`ModelGradient`: time goes where the whole model gains from it, and stops where it does not.

A task counts as often as its kernel runs. What its next round may gain is guessed: what its last
rounds gained, or a hope if that is more, halved for each round since that gained nothing. Tasks
whose gain would not show in the model's latency end, small ones before their first search, and
before anything is measured if it is known what they take in the model.

Some tasks are rivals: ways to compute the same, of which the model takes the fastest. One that is
behind gains nothing before it is ahead of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.errors import TuneError
from tilewright.tune.policy.base import TaskScheduler, task_schedulers
from tilewright.tune.task import FAILED_MS, REAL_GAIN, TaskRecord

_HOPE = 0.3  # the share of its time that a search may save at first
_ATTEMPTS = 3  # rounds of a task of which nothing has worked yet


@task_schedulers.register("model")
@dataclass
class ModelGradient(TaskScheduler):
    """The next round goes to the task that promises the largest gain a second.

    A task ends when its next round promises less than `min_gain` of the latency of all of them.
    """

    min_gain: float = 0.001
    window_size: int = 3
    _asked_at: float | None = field(default=None, init=False)
    _last: int = field(default=-1, init=False)
    _secs: dict[int, float] = field(default_factory=dict, init=False)  # of the last round, by task

    def __post_init__(self) -> None:
        if not 0 <= self.min_gain < 1 or self.window_size < 1:
            raise TuneError(
                "ModelGradient: min_gain lies between 0 and 1 and window_size is at least 1, got "
                f"{self.min_gain} and {self.window_size}"
            )

    def next_task_id(self) -> int:
        self._note_time()
        self._last = self._choose()
        self._asked_at = self.clock()
        return self._last

    @property
    def latency_ms(self) -> float:
        """All tasks, each as often as it runs, with the best kernels so far; of rivals one."""
        best: dict[object, float] = {}
        for task in filter(_is_known, self.tasks):
            own, what = task.task_weight * _best_ms(task), task.computed
            best[what] = min(own, best.get(what, own))
        return sum(best.values())

    def _choose(self) -> int:
        alive = [n for n, task in enumerate(self.tasks) if not task.is_terminated]
        fresh = [n for n in alive if not _has_begun(self.tasks[n])]
        if fresh:  # those first that have most to compute, in case that time runs out
            return max(fresh, key=lambda n: (self.tasks[n].task_weight * self.tasks[n].flop, -n))
        total, gains = self.latency_ms, {n: self.expected_gain(self.tasks[n]) for n in alive}
        for n in alive:
            if gains[n] < self.min_gain * total:
                del gains[n]
                self.terminate_task(n, self._reason())
        if not gains:
            return -1
        return max(gains, key=lambda n: (gains[n] / self._round_secs(n), -n))

    def _reason(self) -> str:
        return f"its next round promises less than {100 * self.min_gain:g} % of the model's latency"

    def expected_gain(self, task: TaskRecord) -> float:
        """Milliseconds of the model's latency that the next round may save."""
        if not _is_known(task):
            return float("inf") if task.counts.rounds < _ATTEMPTS else 0.0
        history, window = task.counts.best_history or [_best_ms(task)], self.window_size
        known = [best for best in history if best < FAILED_MS][-1 - window :]
        recent = (known[0] - known[-1]) / max(1, len(known) - 1)
        likely = max(recent, _HOPE * known[-1]) * 0.5 ** _rounds_without_gain(history)
        return max(0.0, task.task_weight * likely - self._behind(task))

    def _behind(self, task: TaskRecord) -> float:
        """Milliseconds that a task takes longer than the best of its rivals."""
        what = task.computed
        others = [
            other.task_weight * _best_ms(other)
            for other in self.tasks
            if other is not task and _is_known(other) and other.computed == what
        ]
        return max(0.0, task.task_weight * _best_ms(task) - min(others)) if others else 0.0

    # --- what a round costs ---------------------------------------------------------------------

    def _note_time(self) -> None:
        is_search = self._last >= 0 and self.tasks[self._last].counts.rounds > 1
        if is_search and self._asked_at is not None:
            self._secs[self._last] = self.clock() - self._asked_at

    def _round_secs(self, task_id: int) -> float:
        """Seconds of the last search of a task; of one that had none here, those of the others."""
        known = list(self._secs.values())
        usual = sum(known) / len(known) if known else 1.0
        return max(self._secs.get(task_id, usual), 1e-3)


def _has_begun(task: TaskRecord) -> bool:
    """True if a round, or a run of the model, has shown how fast it is."""
    return task.counts.rounds > 0 or task.expected_secs is not None


def _best_ms(task: TaskRecord) -> float:
    """The best that was measured; before that, what is expected."""
    if not task.counts.latency_ms and task.expected_secs is not None:
        return task.expected_secs * 1e3
    return min(task.counts.latency_ms, default=FAILED_MS)


def _is_known(task: TaskRecord) -> bool:
    return _best_ms(task) < FAILED_MS


def _rounds_without_gain(history: list[float]) -> int:
    """Since the last real gain; the first round, of what is calculated, is none."""
    count, best = 0, history[0]
    for latency in history[1:]:
        gained = latency < best * (1 - REAL_GAIN)
        count = 0 if gained else count + 1
        best = min(best, latency)
    return count
