"""The content of a database at one moment, made beside the requests and shared by all pages.

It has the numbers of all tasks and no records: pages ask for those that they show.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilewright.database import Database, Run
from tilewright.database.task_queries import TaskTotals
from tilewright.errors import MissingPageError
from tilewright.records import FailureKind, TuningRecord
from tilewright.report.collect import TaskSummary
from tilewright.serve.live_runs import EventReader, LiveState
from tilewright.serve.live_tasks import LiveTasks

MOST_RUNS = 200  # the last ones are shown


@dataclass(frozen=True)
class Snapshot:
    """What the pages show."""

    version: int
    source: str  # what the user called the database
    totals: Mapping[str, TaskTotals]  # of tasks, by a name for addresses
    runs: list[Run]
    losses: Mapping[str, int]  # candidates that were never measured, by reason
    live: LiveState
    tasks: LiveTasks

    def summary(self, name: str) -> TaskSummary:
        """What to know of a task."""
        if name not in self.totals:
            raise MissingPageError(f"there is no task {name!r} in {self.source}")
        return self.tasks.summary(name)

    def record(self, name: str) -> TuningRecord:
        """The record that a name, or the start of one, means."""
        found = self.tasks.database.tasks.named(name.lower())
        if not found:
            raise MissingPageError(f"no record in {self.source} starts with {name}")
        return found[0][1]

    def run(self, number: int) -> Run | None:
        """The run of that number."""
        return next((run for run in self.runs if run.id == number), None)

    @property
    def failed(self) -> int:
        """Trials without a running time."""
        return sum(task.failed for task in self.totals.values())

    @property
    def records(self) -> int:
        """All records."""
        return sum(task.records for task in self.totals.values())

    @property
    def causes(self) -> Counter[str]:
        """How many candidates were measured, and why the others were not."""
        causes = Counter({"measured": self.records - self.failed})
        for task in self.totals.values():
            causes.update(task.failures)
        causes.update(self.losses)
        return causes


@dataclass
class Watched:
    """A database that others may write to, and the log of who does."""

    database: Database
    source: str
    path: Path | None = None  # of a database in a file
    events: EventReader = field(default_factory=EventReader)
    tasks: LiveTasks = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stamp: object = None
    _snapshot: Snapshot | None = None

    def __post_init__(self) -> None:
        self.tasks = LiveTasks(self.database)

    def snapshot(self) -> Snapshot:
        """The newest one that was made."""
        return self._snapshot or self.refresh()

    def refresh(self) -> Snapshot:
        """Look whether something changed; the snapshot is another object if so."""
        with self._lock:
            told, stamp = self.events.look(), self._content_stamp()
            before = self._snapshot
            if before is None or stamp != self._stamp or self.tasks.is_due():
                self._snapshot = self._made(0 if before is None else before.version + 1)
                self._stamp = stamp
            elif told:
                self._snapshot = replace(
                    before, version=before.version + 1, live=deepcopy(self.events.state)
                )
            assert self._snapshot is not None
            return self._snapshot

    def _made(self, version: int) -> Snapshot:
        history = self.database.history
        runs = history.runs(MOST_RUNS)
        self.tasks.refresh(runs)
        return Snapshot(
            version=version,
            source=self.source,
            totals=self.tasks.totals,
            runs=runs,
            losses=_other_losses(history.losses().values()),
            live=deepcopy(self.events.state),
            tasks=self.tasks,
        )

    def _content_stamp(self) -> object:
        """Differs after a commit; of a file only its dates and sizes are looked at."""
        if self.path is None:
            return self.database.stamp()
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return [_date_and_size(file) for file in files]


def _other_losses(by_run: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Those that have no record: failures are counted by theirs."""
    failures = {cause.value for cause in FailureKind}
    losses: Counter[str] = Counter()
    for reasons in by_run:
        losses.update({why: n for why, n in reasons.items() if why not in failures})
    return losses


def _date_and_size(file: Path) -> tuple[int, int] | None:
    try:
        facts = file.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size
