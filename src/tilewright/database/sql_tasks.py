"""Tasks as the tables tell of them: an index has all that counts and curves are made of."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from tilewright.database.sql_rows import COLUMNS, RecordRow
from tilewright.database.sql_store import SQLStore, marks
from tilewright.database.sql_workloads import SQLTargets, SQLWorkloads
from tilewright.database.task_queries import (
    BATCH,
    NAME_LENGTH,
    Measured,
    RunTask,
    TaskQueries,
    TaskTotals,
    task_name,
)
from tilewright.errors import StoredDataError
from tilewright.records import FAILED_RUN_SECS, TuningRecord, Workload

_MOST_LOADED = 256  # programs that stay in memory for who only looks
_FAILED = f"(failure IS NOT NULL OR mean >= {FAILED_RUN_SECS})"
_TOTALS = f"""
SELECT workload_id, target_id, failure, count(*), sum(CASE WHEN {_FAILED} THEN 1 ELSE 0 END),
    min(CASE WHEN valid = 1 THEN mean END), min(id), max(id)
FROM records WHERE {{}} GROUP BY workload_id, target_id, failure"""
# The labels of a run one after the other, without looking at its trials, and the first record of
# each that is still there.
_RUN_TASKS = """
WITH RECURSIVE labels (label) AS (
    SELECT min(task) FROM trials WHERE run_id = ?
    UNION ALL
    SELECT (SELECT min(task) FROM trials WHERE run_id = ? AND task > label)
    FROM labels WHERE label IS NOT NULL
)
SELECT label, records.workload_id, records.target_id, records.id
FROM labels JOIN records ON records.id = (
    SELECT record_id FROM trials JOIN records found ON found.id = record_id
    WHERE run_id = ? AND task = label ORDER BY number LIMIT 1
)
WHERE label IS NOT NULL ORDER BY records.id"""

ReadRow = Callable[[RecordRow], TuningRecord | None]


class SQLTasks(TaskQueries):
    """Questions to the table `records`; `read` makes a record of a row."""

    def __init__(
        self, store: SQLStore, workloads: SQLWorkloads, targets: SQLTargets, read: ReadRow
    ) -> None:
        self._store = store
        self._workloads = workloads
        self._targets = targets
        self._read = read
        self._hashes: dict[int, int] = {}  # structural ones, of workloads

    def totals(self, workloads: Collection[int] | None = None) -> list[TaskTotals]:
        if workloads is None:
            return self._totals("TRUE", ())
        wanted = list(workloads)
        return self._totals(f"workload_id IN ({marks(wanted)})", wanted) if wanted else []

    def _totals(self, where: str, values: Sequence[object]) -> list[TaskTotals]:
        rows = self._store.rows(_TOTALS.format(where), values)
        self._load_hashes({row[0] for row in rows} - self._hashes.keys())
        found: dict[str, TaskTotals] = {}
        for workload, target, cause, count, failed, best, first, last in rows:
            name = self._task_name(workload, target)
            failures = {} if cause is None else {str(cause): count}
            one = TaskTotals(
                name, workload, (target,), count, failures, int(failed), best, first, last
            )
            found[name] = found[name].added(one) if name in found else one
        return sorted(found.values(), key=lambda task: task.first)

    def _load_hashes(self, workloads: Collection[int]) -> None:
        """Of all workloads that are not known yet; the table has them."""
        if workloads:
            rows = self._store.rows(
                "SELECT workload_id, hash FROM workload_hashes WHERE mode = 'structural'"
            )
            self._hashes.update((row_id, int(value, 16)) for row_id, value in rows)

    def _task_name(self, workload: int, target: int | None) -> str:
        if workload not in self._hashes:
            self._load_hashes([workload])
        return task_name(self._hashes.get(workload, -workload), self._target_text(target))

    def _target_text(self, target: int | None) -> object:
        try:
            return self._targets.load(target)[0]
        except StoredDataError:
            return f"unreadable {target}"

    def changed_after(self, record: int) -> tuple[set[int], int]:
        ((last,),) = self._store.rows("SELECT max(id) FROM records")
        if last is None or last <= record:
            return set(), last or 0
        rows = self._store.rows("SELECT DISTINCT workload_id FROM records WHERE id > ?", (record,))
        return {row[0] for row in rows}, last

    def run_tasks(self, run: int) -> list[RunTask]:
        rows = self._store.rows(_RUN_TASKS, (run, run, run))
        return [
            RunTask(run, label, self._task_name(workload, target), first)
            for label, workload, target, first in rows
        ]

    def workload(self, task: TaskTotals) -> Workload:
        self._workloads.trim(_MOST_LOADED)
        return self._workloads.load(task.workload)

    def measured(self, task: TaskTotals, after: int = 0) -> Iterator[Measured]:
        """Each cause of failures has a part of the index of its own, which is in order."""
        return heapq.merge(
            *(
                self._part(task.workload, target, cause, after)
                for target in task.targets
                for cause in (None, *task.failures)
            )
        )

    def _part(
        self, workload: int, target: int | None, cause: str | None, after: int
    ) -> Iterator[Measured]:
        where, values = "workload_id = ?", list[object]([workload])
        for column, value in (("target_id", target), ("failure", cause)):
            where += f" AND {column} IS NULL" if value is None else f" AND {column} = ?"
            values += [] if value is None else [value]
        # The order of the index, which a server does not see to be that of ids.
        statement = (
            f"SELECT id, CASE WHEN {_FAILED} THEN NULL ELSE mean END FROM records "
            f"WHERE {where} AND id > ? ORDER BY workload_id, target_id, failure, id LIMIT ?"
        )
        while rows := self._store.rows(statement, [*values, after, BATCH]):
            yield from rows
            after = rows[-1][0]

    def first(self, task: TaskTotals, count: int) -> list[TuningRecord]:
        where, values = _of(task)
        return self._records(f"{where} ORDER BY id LIMIT ?", [*values, count])

    def fastest(self, task: TaskTotals, count: int) -> list[TuningRecord]:
        where, values = _of(task)
        found = self._records(f"{where} AND valid = 1 ORDER BY mean, id LIMIT ?", [*values, count])
        return [record for record in found if record.is_valid]

    def failed(self, task: TaskTotals, cause: str, count: int) -> list[TuningRecord]:
        where, values = _of(task)
        order = "id" if count > 0 else "id DESC"
        return self._records(
            f"{where} AND failure = ? ORDER BY {order} LIMIT ?", [*values, cause, abs(count)]
        )

    def numbered(self, records: Sequence[int]) -> list[TuningRecord]:
        found = f"id IN ({marks(records)}) ORDER BY id"
        return self._records(found, records) if records else []

    def _records(self, condition: str, values: Sequence[object]) -> list[TuningRecord]:
        return [record for _, record in self._read_rows(condition, values)]

    def _read_rows(self, condition: str, values: Sequence[object]) -> list[tuple[bytes, Any]]:
        self._workloads.trim(_MOST_LOADED)
        rows = self._store.rows(f"SELECT {COLUMNS}, key FROM records WHERE {condition}", values)
        found = ((row[-1], self._read(row[:-1])) for row in rows)
        return [(key, record) for key, record in found if record is not None]

    def named(self, prefix: str) -> list[tuple[str, TuningRecord]]:
        """The key of a record, which has an index, begins with its name."""
        digits = 2 * 16
        ends = [bytes.fromhex(prefix[:digits].ljust(digits, end)) for end in "0f"]
        found = self._read_rows("key BETWEEN ? AND ? ORDER BY id", ends)
        return [(bytes(key).hex()[:NAME_LENGTH], record) for key, record in found]


def _of(task: TaskTotals) -> tuple[str, list[object]]:
    """The condition for the records of a task; `IN` never finds NULL."""
    known = [target for target in task.targets if target is not None]
    ways = [f"target_id IN ({marks(known)})"] if known else []
    ways += ["target_id IS NULL"] if None in task.targets else []
    return f"workload_id = ? AND ({' OR '.join(ways)})", [task.workload, *known]
