"""The tasks of a database that others write to: all in numbers, those that are shown in full.

Numbers of all tasks are asked for once, then only those of tasks that got records, and now and then
all of them again, since records are also corrected and deleted. Summaries are made when a page
shows them, and kept for the next one.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.database import Database, Run, Trial
from tilewright.database.similarity import describe
from tilewright.database.task_queries import RunTask, TaskTotals
from tilewright.errors import MissingPageError
from tilewright.records import FailureKind, TuningRecord
from tilewright.report.collect import (
    Measured,
    TaskSummary,
    funnel,
    known_roofline,
    run_labels,
)
from tilewright.report.course import Course
from tilewright.report.roofline import flop_of
from tilewright.report.units import short_target

FASTEST = 20  # candidates that a page shows
_FIRST = 8  # records among which the baselines are
_PREDICTED = 2000  # trials that a picture shows
_MOST_SUMMARIES = 300
_MOST_RUNS = 200  # that are looked at for what they called their tasks
# Rows of a server may appear after ones that were given later numbers, by as much as a transaction
# takes.
_LATE_SECS = 60.0
_NO_RECORD = 1 << 62  # none has such a number
_MANY = 1000  # workloads that are asked for one by one
_MOST_RECENT = 64  # workloads whose records may be corrected still
_ALL_AGAIN_SECS = 60.0
_PATIENCE = 50  # times as long as asking for all took, until it is done again


@dataclass
class LiveTasks:
    """Tasks by name, in the order of their first records."""

    database: Database
    all_again_secs: float = _ALL_AGAIN_SECS
    totals: Mapping[str, TaskTotals] = field(default_factory=dict)
    _run_tasks: dict[int, list[RunTask]] = field(default_factory=dict)
    _going_on: set[int] = field(default_factory=set)  # runs, when they were looked at last
    _by_task: Mapping[str, list[RunTask]] = field(default_factory=dict)
    _summaries: OrderedDict[str, tuple[object, TaskSummary]] = field(default_factory=OrderedDict)
    _recent: OrderedDict[int, None] = field(default_factory=OrderedDict)
    _seen: deque[tuple[float, int]] = field(default_factory=deque)  # when, the last record then
    _all_at: float | None = None
    _all_took: float = 0.0
    _is_partial: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    # --- numbers --------------------------------------------------------------------------------

    def refresh(self, runs: Sequence[Run]) -> None:
        """Take in what was committed since the last time."""
        now = time.monotonic()
        queries = self.database.tasks
        while len(self._seen) > 1 and self._seen[1][0] < now - _LATE_SECS:
            self._seen.popleft()
        changed, last = queries.changed_after(self._seen[0][1] if self._seen else _NO_RECORD)
        if self._is_time_for_all(now) or len(changed) > _MANY:
            self.totals = {task.name: task for task in queries.totals()}
            self._all_at, self._all_took = now, time.monotonic() - now
            self._is_partial = False
        else:
            self._take_in(changed)
            self._is_partial = True
        self._seen.append((now, last))
        self._look_at_runs(runs)

    def is_due(self) -> bool:
        """Whether all should be asked for again, since the last time was about some only."""
        return self._is_partial and self._is_time_for_all(time.monotonic())

    def _is_time_for_all(self, now: float) -> bool:
        wait = max(self.all_again_secs, _PATIENCE * self._all_took)
        return self._all_at is None or now - self._all_at >= wait

    def _take_in(self, changed: Iterable[int]) -> None:
        for workload in changed:
            self._recent.pop(workload, None)
            self._recent[workload] = None
        while len(self._recent) > _MOST_RECENT:
            self._recent.popitem(last=False)
        looked_at = {*changed, *self._recent, *self._being_tuned()}
        kept = {n: task for n, task in self.totals.items() if task.workload not in looked_at}
        fresh = {task.name: task for task in self.database.tasks.totals(looked_at)}
        both = {**kept, **fresh}
        self.totals = dict(sorted(both.items(), key=lambda item: item[1].first))

    def _being_tuned(self) -> set[int]:
        """The workloads of runs that go on: their finals correct records."""
        tasks = [each.task for run in self._going_on for each in self.in_run(run)]
        return {self.totals[name].workload for name in tasks[-_MOST_RECENT:] if name in self.totals}

    def _look_at_runs(self, runs: Sequence[Run]) -> None:
        before = dict(self._run_tasks)
        for run in runs[-_MOST_RUNS:]:
            if run.id not in self._run_tasks or run.id in self._going_on:
                self._run_tasks[run.id] = self.database.tasks.run_tasks(run.id)
        self._going_on = {run.id for run in runs if run.status == "running"}
        if before != self._run_tasks:
            found: dict[str, list[RunTask]] = {}
            for each in itertools.chain.from_iterable(self._run_tasks.values()):
                found.setdefault(each.task, []).append(each)
            self._by_task = found

    def in_run(self, run: int) -> list[RunTask]:
        """The tasks of a run."""
        return self._run_tasks.get(run, [])

    def in_runs(self, name: str) -> list[RunTask]:
        """The runs that a task was in, oldest first."""
        return self._by_task.get(name, [])

    # --- one task -------------------------------------------------------------------------------

    def summary(self, name: str) -> TaskSummary:
        """Everything that a page shows of a task."""
        totals = self.totals.get(name)
        if totals is None:
            raise MissingPageError(f"there is no task {name!r}")
        in_runs = self.in_runs(name)
        with self._lock:
            known = self._summaries.get(name)
            if known is None or known[0] != (totals, in_runs):
                known = (totals, in_runs), self._made(totals, in_runs)
                self._summaries[name] = known
            self._summaries.move_to_end(name)
            while len(self._summaries) > _MOST_SUMMARIES:
                self._summaries.popitem(last=False)
        return known[1]

    def _made(self, task: TaskTotals, in_runs: Sequence[RunTask]) -> TaskSummary:
        queries, history = self.database.tasks, self.database.history
        workload = queries.workload(task)
        named = self._named(task, in_runs)
        target = named[0].target if named else None
        causes = _causes(task.failures)
        counted = [entry for each in in_runs for entry in history.funnel(each.run, each.label)]
        return TaskSummary(
            workload=workload,
            name=describe(workload.mod),
            labels=run_labels(each.label for each in in_runs),
            target=short_target(target),
            flop=flop_of(workload.mod),
            roofline=known_roofline(self.database, workload.mod, target),
            records=task.records,
            failed=task.failed,
            causes=causes,
            course=Course.of(queries.measured(task), [(each.first, each.run) for each in in_runs]),
            named=tuple(named),
            predicted=tuple(self._predicted(task, in_runs)),
            funnel=funnel(counted, Measured(task.records, task.failed, causes)),
            errors={
                cause: record.error_msg or ""
                for cause in causes
                for record in queries.failed(task, cause.value, 1)
            },
        )

    def _named(self, task: TaskTotals, in_runs: Sequence[RunTask]) -> list[TuningRecord]:
        """Baselines, which are the first two in a run, and the best."""
        queries = self.database.tasks
        starts = queries.numbered([each.first + n for each in in_runs for n in (0, 1)])
        own = {(each.run, each.label) for each in in_runs}
        started = [
            each for each in starts if (each.extra.get("run"), each.extra.get("task")) in own
        ]
        return [*queries.first(task, _FIRST), *started, *queries.fastest(task, 1)]

    def fastest(self, name: str) -> list[TuningRecord]:
        """The fastest candidates of a task."""
        return self.database.tasks.fastest(self.totals[name], FASTEST)

    def _predicted(self, task: TaskTotals, in_runs: Sequence[RunTask]) -> list[Trial]:
        """The last trials of the last runs."""
        found: list[Trial] = []
        for each in reversed(in_runs):
            left = _PREDICTED - len(found)
            if left > 0:
                history = self.database.history
                found = [*history.last_trials(each.run, each.label, left), *found]
        return found

    def failed(self, name: str, count: int) -> list[TuningRecord]:
        """The last records of a task that failed, whatever the cause; the newest first."""
        task = self.totals[name]
        queries = self.database.tasks
        found = [each for cause in task.failures for each in queries.failed(task, cause, -count)]
        return sorted(found, key=_when, reverse=True)[:count]


def _when(record: TuningRecord) -> tuple[int, int]:
    return int(record.extra.get("run") or 0), int(record.extra.get("trial") or 0)


def _causes(failures: Mapping[str, int]) -> dict[FailureKind, int]:
    known = {cause.value for cause in FailureKind}
    counted = Counter({cause: number for cause, number in failures.items() if cause in known})
    return {FailureKind(cause): number for cause, number in counted.most_common()}
