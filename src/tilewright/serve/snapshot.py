"""The content of a database at one moment, made beside the requests and shared by all pages."""

from __future__ import annotations

import hashlib
import threading
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from tilewright.database import Database, Run
from tilewright.database.record_ids import named
from tilewright.errors import DatabaseError, ServeError
from tilewright.ir import structural_hash
from tilewright.records import TuningRecord
from tilewright.report.collect import TaskSummary, collect
from tilewright.report.model_notes import model_notes
from tilewright.report.model_page import model_section
from tilewright.report.task_rooflines import task_rooflines
from tilewright.serve.live_runs import EventReader, LiveState

MOST_RECORDS = 200_000  # some kilobytes each while they are read


@dataclass(frozen=True)
class Snapshot:
    """What the pages show."""

    version: int
    source: str  # what the user called the database
    records: int
    tasks: dict[str, TaskSummary]  # by a name for addresses
    runs: list[Run]
    models: list[str]  # their sections of the page
    rooflines: str  # the figures of all targets
    live: LiveState

    def record(self, name: str) -> TuningRecord:
        """The record that a name, or the start of one, means."""
        found = named((each for task in self.tasks.values() for each in task.records), name)
        if not found:
            raise DatabaseError(f"no record in {self.source} starts with {name}")
        return found[0][1]

    def run(self, number: int) -> Run | None:
        """The run of that number."""
        return next((run for run in self.runs if run.id == number), None)

    @cached_property
    def failed(self) -> int:
        """Trials without a running time."""
        return sum(task.failed for task in self.tasks.values())

    @cached_property
    def trials(self) -> int:
        """All trials."""
        return sum(len(task.trials) for task in self.tasks.values())


def task_key(record: TuningRecord) -> str:
    """A name for addresses of the task of a record, the same wherever the database goes."""
    what = f"{structural_hash(record.workload.mod):x} {record.target}"
    return hashlib.sha256(what.encode()).hexdigest()[:10]


@dataclass
class Watched:
    """A database that others may write to, and the log of who does."""

    database: Database
    source: str
    path: Path | None = None  # of a database in a file
    events: EventReader = field(default_factory=lambda: EventReader(None))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stamp: object = None
    _snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """The newest one that was made."""
        return self._snapshot or self.refresh()

    def refresh(self) -> Snapshot:
        """Look whether something changed; the snapshot is another object if so."""
        with self._lock:
            told, stamp = self.events.look(), self._content_stamp()
            before = self._snapshot
            if before is None or stamp != self._stamp:
                self._snapshot = self._made(0 if before is None else before.version + 1)
                self._stamp = stamp
            elif told:
                self._snapshot = replace(
                    before, version=before.version + 1, live=deepcopy(self.events.state)
                )
            assert self._snapshot is not None
            return self._snapshot

    def _made(self, version: int) -> Snapshot:
        database = self.database
        if len(database) > MOST_RECORDS:
            raise ServeError(
                f"{self.source} has {len(database):,} records, a page holds {MOST_RECORDS:,}; "
                "`tilewright db prune` leaves the best of each task"
            )
        tasks = {task_key(task.records[0]): task for task in collect(database)}
        notes = model_notes(database)
        return Snapshot(
            version=version,
            source=self.source,
            records=len(database),
            tasks=tasks,
            runs=database.history.runs(),
            models=[model_section(note, database) for note in notes],
            rooflines=task_rooflines(tasks.values(), database),
            live=deepcopy(self.events.state),
        )

    def _content_stamp(self) -> object:
        """Differs after a commit; of a file only its dates and sizes are looked at."""
        if self.path is None:
            runs = self.database.history.runs()
            return len(self.database), [(run.id, run.status) for run in runs]
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return [_date_and_size(file) for file in files]


def _date_and_size(file: Path) -> tuple[int, int] | None:
    try:
        facts = file.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size
