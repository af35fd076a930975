"""The state of a tuning run as its events tell it; tables, lines and JSON are views of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.database.similarity import describe
from tilewright.report.roofline import MeasuredPeaks, Peaks, Roofline, bytes_of, roofline_of
from tilewright.tune import events
from tilewright.tune.options import UNLIMITED_TRIALS
from tilewright.tune.task import TaskRecord

WAITING, DONE = "waiting", "done"


@dataclass
class TaskState:
    """One task, and what is happening to it."""

    task: TaskRecord
    shape: str
    roofline: Roofline | None
    phase: str = WAITING

    @staticmethod
    def of(task: TaskRecord, peaks: Peaks | None = None) -> TaskState:
        """The state of a task before its first round."""
        assert task.ctx.mod is not None
        shape = describe(task.ctx.mod)
        return TaskState(task, shape, roofline_of(task.ctx.mod, task.ctx.target, peaks))

    @property
    def name(self) -> str:
        """What the user called it."""
        return self.task.ctx.task_name

    @property
    def share(self) -> float | None:
        """The best candidate's share of the roofline."""
        return None if self.roofline is None else self.roofline.share(self.task.best_secs)


class Progress:
    """Follows the events of a run."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, peaks: Peaks | None = None
    ) -> None:
        self._clock = clock
        self._peaks = peaks
        self._start = clock()
        self.tasks: list[TaskState] = []
        self.max_trials: int | None = None
        self.budget_secs: float | None = None
        self.reason: str | None = None  # why the run has ended
        self.last_round = ""  # how far its candidates got, how well they were ranked

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.TuningStarted(tasks, max_trials, budget_secs):
                self.tasks = [TaskState.of(task, self._peaks) for task in tasks]
                self.max_trials = None if max_trials >= UNLIMITED_TRIALS else max_trials
                self.budget_secs = budget_secs
            case events.PhaseChanged(task_id, phase, _):
                self.tasks[task_id].phase = phase
            case events.RoundMeasured(task_id, _, _, quality, funnel):
                task = self.tasks[task_id].task
                assert task.ctx.mod is not None
                if isinstance(self._peaks, MeasuredPeaks):  # it may show now that it can do more
                    self._peaks.measure_again(bytes_of(task.ctx.mod))
                self.tasks[task_id] = TaskState.of(task, self._peaks)
                known = [str(part) for part in (funnel, quality) if part is not None]
                self.last_round = f"{task.ctx.task_name}: {'; '.join(known)}" if known else ""
            case events.TaskFinished(task_id, _):
                self.tasks[task_id].phase = DONE
            case events.TuningFinished(reason, _):
                self.reason = reason
                for state in self.tasks:
                    state.phase = DONE

    @property
    def elapsed(self) -> float:
        """Seconds since the run was started."""
        return self._clock() - self._start

    @property
    def trials(self) -> int:
        """Trials of all tasks."""
        return sum(state.task.trials for state in self.tasks)

    @property
    def reused(self) -> int:
        """Those among them whose measurement was known."""
        return sum(state.task.counts.reused for state in self.tasks)

    def remaining(self) -> float | None:
        """Seconds until the end, whichever limit comes first; None: nobody knows yet."""
        estimates = []
        if self.budget_secs is not None:
            estimates.append(max(0.0, self.budget_secs - self.elapsed))
        new = self.trials - self.reused
        if self.max_trials is not None and new:
            estimates.append(self.elapsed / new * max(0, self.max_trials - self.trials))
        return min(estimates, default=None)
