"""Questions about the tasks of a database, answered without all records being in memory.

A task is a program on a target. `Database.tasks` answers for all kinds of databases: those in SQL
ask their tables, others look through the records that they have in memory anyway.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.database.stored_record import record_key, trace_text
from tilewright.ir import structural_hash
from tilewright.records import FAILED_RUN_SECS, TuningRecord, Workload

BATCH = 20_000  # measurements that are read together
NAME_LENGTH = 10


@dataclass(frozen=True)
class TaskTotals:
    """A task in numbers. `workload` and `targets` say where a database has its records."""

    name: str  # for addresses, the same wherever the records go
    workload: int
    targets: tuple[int | None, ...]
    records: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)  # by cause
    failed: int = 0  # without a running time, also where no cause was noted
    best_secs: float | None = None
    first: int = 0  # the numbers of its first and its last record
    last: int = 0

    def added(self, other: TaskTotals) -> TaskTotals:
        """Both together."""
        known = [each.best_secs for each in (self, other) if each.best_secs is not None]
        return TaskTotals(
            self.name,
            self.workload,
            tuple(dict.fromkeys((*self.targets, *other.targets))),
            self.records + other.records,
            dict(Counter(self.failures) + Counter(other.failures)),
            self.failed + other.failed,
            min(known, default=None),
            min(self.first, other.first),
            max(self.last, other.last),
        )


@dataclass(frozen=True)
class RunTask:
    """What a run called a task, and the first record of it there."""

    run: int
    label: str
    task: str  # its name
    first: int


Measured = tuple[int, float | None]  # the number of a record and its seconds; None: it failed


class TaskQueries(ABC):
    """Questions about tasks. Numbers of records grow, and stay as they are."""

    @abstractmethod
    def totals(self, workloads: Collection[int] | None = None) -> list[TaskTotals]:
        """All tasks, or those of some workloads, in the order of their first records."""

    @abstractmethod
    def changed_after(self, record: int) -> tuple[set[int], int]:
        """The workloads that got records after one, and the number of the last record."""

    @abstractmethod
    def run_tasks(self, run: int) -> list[RunTask]:
        """The tasks of a run that still have records here."""

    @abstractmethod
    def workload(self, task: TaskTotals) -> Workload:
        """The program of a task."""

    @abstractmethod
    def measured(self, task: TaskTotals, after: int = 0) -> Iterator[Measured]:
        """Its measurements in the order in which they were kept."""

    @abstractmethod
    def first(self, task: TaskTotals, count: int) -> list[TuningRecord]:
        """Its first records."""

    @abstractmethod
    def fastest(self, task: TaskTotals, count: int) -> list[TuningRecord]:
        """Its fastest valid records, the fastest first."""

    @abstractmethod
    def failed(self, task: TaskTotals, cause: str, count: int) -> list[TuningRecord]:
        """Its first records that failed for a cause; with a negative count its last ones."""

    @abstractmethod
    def numbered(self, records: Sequence[int]) -> list[TuningRecord]:
        """Records by their numbers; those that are gone are left out."""

    @abstractmethod
    def named(self, prefix: str) -> list[tuple[str, TuningRecord]]:
        """The records whose name starts with a text, with their names."""


def task_name(workload_hash: int, target: object) -> str:
    """A name for a task by the structural hash of its program and its target."""
    return hashlib.sha256(f"{workload_hash:x} {target}".encode()).hexdigest()[:NAME_LENGTH]


class ListedTasks(TaskQueries):
    """Answers from a list of all records; their numbers are their places in it, from 1."""

    def __init__(self, records: Callable[[], list[TuningRecord]]) -> None:
        self._records = records
        self._workloads: dict[Workload, tuple[int, int]] = {}

    def _numbered(self) -> Iterator[tuple[int, TuningRecord]]:
        yield from enumerate(self._records(), 1)

    def _of(self, task: TaskTotals) -> list[tuple[int, TuningRecord]]:
        return [each for each in self._numbered() if self._name(each[1]) == task.name]

    def _workload(self, record: TuningRecord) -> tuple[int, int]:
        """The number of its workload, and the hash."""
        known = self._workloads.get(record.workload)
        if known is None:
            known = len(self._workloads) + 1, structural_hash(record.workload.mod)
            self._workloads[record.workload] = known
        return known

    def _name(self, record: TuningRecord) -> str:
        return task_name(self._workload(record)[1], record.target)

    def totals(self, workloads: Collection[int] | None = None) -> list[TaskTotals]:
        found: dict[str, TaskTotals] = {}
        for number, record in self._numbered():
            workload, name = self._workload(record)[0], self._name(record)
            if workloads is None or workload in workloads:
                one = _totals_of(name, workload, number, record)
                found[name] = found[name].added(one) if name in found else one
        return list(found.values())

    def changed_after(self, record: int) -> tuple[set[int], int]:
        records = self._records()
        return {self._workload(each)[0] for each in records[record:]}, len(records)

    def run_tasks(self, run: int) -> list[RunTask]:
        found: dict[str, RunTask] = {}
        for number, record in self._numbered():
            if record.extra.get("run") == run:
                label = str(record.extra.get("task") or "")
                found.setdefault(label, RunTask(run, label, self._name(record), number))
        return list(found.values())

    def workload(self, task: TaskTotals) -> Workload:
        return self._of(task)[0][1].workload

    def measured(self, task: TaskTotals, after: int = 0) -> Iterator[Measured]:
        return ((number, _seconds(each)) for number, each in self._of(task) if number > after)

    def first(self, task: TaskTotals, count: int) -> list[TuningRecord]:
        return [record for _, record in self._of(task)[:count]]

    def fastest(self, task: TaskTotals, count: int) -> list[TuningRecord]:
        valid = [record for _, record in self._of(task) if record.is_valid]
        return sorted(valid, key=lambda record: record.mean_secs)[:count]

    def failed(self, task: TaskTotals, cause: str, count: int) -> list[TuningRecord]:
        found = [record for _, record in self._of(task) if record.failure == cause]
        return found[:count] if count > 0 else found[count:][::-1]

    def numbered(self, records: Sequence[int]) -> list[TuningRecord]:
        known = self._records()
        return [known[number - 1] for number in records if 0 < number <= len(known)]

    def named(self, prefix: str) -> list[tuple[str, TuningRecord]]:
        names = ((self._record_name(record), record) for record in self._records())
        wanted = prefix.lower()
        return [(name[:NAME_LENGTH], each) for name, each in names if name.startswith(wanted)]

    def _record_name(self, record: TuningRecord) -> str:
        return record_key(self._workload(record)[1], trace_text(record.trace), record).hex()


def _totals_of(name: str, workload: int, number: int, record: TuningRecord) -> TaskTotals:
    failures = {} if record.failure is None else {record.failure.value: 1}
    failed = int(_seconds(record) is None)
    best = record.mean_secs if record.is_valid else None
    return TaskTotals(name, workload, (None,), 1, failures, failed, best, number, number)


def _seconds(record: TuningRecord) -> float | None:
    secs = record.mean_secs
    return None if record.failure is not None or secs >= FAILED_RUN_SECS else secs
