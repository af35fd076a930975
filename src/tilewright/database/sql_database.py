"""Databases in SQL: SQLite's files and PostgreSQL's servers have the same tables and statements.

A record that was committed is on disk and stays there whatever happens to the process; committing
it again changes nothing. Rows that cannot be read are skipped and reported, never fatal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import msgspec

from tilewright.database import similarity
from tilewright.database.base import BATCH, Database, check_top_k, logger
from tilewright.database.compatibility import Fit, fit, fit_of_record, identity_of
from tilewright.database.history import History, trial_of
from tilewright.database.sql_rows import (
    COLUMNS,
    INSERT,
    UPDATE,
    RecordRow,
    insertion,
    record_from_row,
    to_json,
)
from tilewright.database.sql_store import SQLStore, marks
from tilewright.database.sql_tasks import SQLTasks
from tilewright.database.sql_workloads import SQLTargets, SQLWorkloads
from tilewright.database.stored_record import Problem, readable, record_key, trace_text
from tilewright.errors import StoredDataError
from tilewright.ir import IRModule
from tilewright.records import TuningRecord, Workload
from tilewright.support.decoding import decoding
from tilewright.target import Target

_T = TypeVar("_T")


class SQLDatabase(Database):
    """Records in the tables of a store."""

    def __init__(self, store: SQLStore, module_equality: str) -> None:
        self._store = store
        self._workloads = SQLWorkloads(store, module_equality)
        self._targets = SQLTargets(store)
        self.history = History(store)
        self.tasks = SQLTasks(store, self._workloads, self._targets, self._read)
        self._new_workloads: list[int] = []  # of the open transaction
        self._reported: set[Problem] = set()
        store.when_ended = self._transaction_ended

    def close(self) -> None:
        self._store.close()

    def transaction(self) -> AbstractContextManager[None]:
        """Everything inside becomes durable together, or not at all; may be nested."""
        return self._store.transaction()

    def atomically(self, work: Callable[[], _T]) -> _T:
        return self._store.atomically(work)

    def _transaction_ended(self, is_kept: bool) -> None:
        if not is_kept:  # their ids will be given again
            for row_id in self._new_workloads:
                self._workloads.forget(row_id)
            self._targets.forget_all()
        self._new_workloads.clear()

    # --- workloads --------------------------------------------------------------------------

    def has_workload(self, mod: IRModule) -> bool:
        return self._workloads.find(mod) is not None

    def commit_workload(self, mod: IRModule) -> Workload:
        found = self._workloads.find(mod)
        if found is not None:
            return found
        return self.atomically(lambda: self._commit_new_workload(mod))

    def _commit_new_workload(self, mod: IRModule) -> Workload:
        # Another writer may have been quicker, so look again where nobody else can write.
        self._store.alone()
        found = self._workloads.find(mod)
        return found or self._workloads.load(self._adopt(Workload(mod, 0)))

    def _adopt(self, workload: Workload) -> int:
        row_id, is_new = self._workloads.adopt(workload)
        if is_new:
            self._new_workloads.append(row_id)
        return row_id

    def workloads(self) -> list[Workload]:
        return self._workloads.all()

    def nearest_workload(self, mod: IRModule) -> similarity.Similar | None:
        return similarity.nearest(mod, self._workloads.similar_to(mod))

    # --- records ----------------------------------------------------------------------------

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self.commit_tuning_records([record])

    def commit_tuning_records(self, records: Iterable[TuningRecord]) -> int:
        kept = list(records)
        return self.atomically(lambda: sum(map(self._insert, kept)))

    def _insert(self, record: TuningRecord) -> int:
        workload_id = self._adopt(record.workload)
        target_id = self._targets.add(record)
        row = insertion(record, workload_id, self._workloads.hash_of(workload_id), target_id)
        inserted = self._store.execute(INSERT, row)
        if record.extra.get("run") is not None:
            ((record_id,),) = self._store.rows("SELECT id FROM records WHERE key = ?", row[:1])
            trial = trial_of(record, record_id)
            if trial is not None:
                self.history.add_trials([trial])
        return inserted

    def correct_record(self, record: TuningRecord, corrected: TuningRecord) -> bool:
        """Put another record in the place of one."""
        return self.atomically(lambda: self._correct(record, corrected))

    def _correct(self, record: TuningRecord, corrected: TuningRecord) -> bool:
        workload_id = self._adopt(record.workload)
        workload_hash = self._workloads.hash_of(workload_id)
        row = insertion(corrected, workload_id, workload_hash, self._targets.add(corrected))
        return bool(self._store.execute(UPDATE, (*row, self._key(record), row[0], row[0])))

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        check_top_k(top_k)
        chosen: list[TuningRecord] = []
        if top_k:
            ids = self._workloads.ids_equal_to(workload)
            for record in self._valid_records(ids, wanted=top_k):
                chosen.append(record)
                if len(chosen) == top_k:
                    break
        return chosen

    def _valid_records(
        self,
        workload_ids: list[int],
        target_ids: list[int | None] | None = None,
        wanted: int = 1,
    ) -> Iterator[TuningRecord]:
        """Usable records of some targets or of all, fastest first, read as far as they are used."""
        where, values = _where(workload_ids, target_ids)
        seen: set[int] = set()  # a writer may move them while we read
        size = min(wanted, BATCH)  # each row may lie elsewhere on the disk
        while True:
            rows = self._store.rows(
                f"SELECT {COLUMNS} FROM records WHERE {where} ORDER BY mean, id LIMIT ? OFFSET ?",
                [*values, size, len(seen)],
            )
            for row in rows:
                record = self._read(row) if row[0] not in seen else None
                if record is not None and record.is_valid:
                    yield record
            seen.update(row[0] for row in rows)
            if len(rows) < size:
                return
            size *= 4

    def _read(self, row: RecordRow) -> TuningRecord | None:
        """The record of a row; None, and a warning, if it is damaged."""
        return readable("records", row[0], row, self._read_or_raise, self._report)

    def _read_or_raise(self, row: RecordRow) -> TuningRecord:
        target, identity = self._targets.load(row[2])
        return record_from_row(row, self._workloads.load(row[1]), target, identity)

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return self._records("TRUE", ())

    def record_batches(self, size: int = BATCH) -> Iterator[list[TuningRecord]]:
        """A page of the table at a time, so that only that is in memory."""
        last = 0
        while rows := self._store.rows(
            f"SELECT {COLUMNS} FROM records WHERE id > ? ORDER BY id LIMIT ?", (last, size)
        ):
            last = rows[-1][0]
            yield [record for record in map(self._read, rows) if record is not None]

    def get_tuning_records_of(self, workload: Workload) -> list[TuningRecord]:
        workload_ids = self._workloads.ids_equal_to(workload)
        return self._records(f"workload_id IN ({marks(workload_ids)})", workload_ids)

    def _records(self, where: str, values: Sequence[int]) -> list[TuningRecord]:
        rows = self._store.rows(f"SELECT {COLUMNS} FROM records WHERE {where} ORDER BY id", values)
        return [record for record in map(self._read, rows) if record is not None]

    def __len__(self) -> int:
        return int(self._store.rows("SELECT count(*) FROM records")[0][0])

    def targets_of(self, mod: IRModule) -> list[str]:
        where, values = _where(self._workloads.ids_of(mod), None)
        rows = self._store.rows(f"SELECT DISTINCT target_id FROM records WHERE {where}", values)
        readable = self._targets.all()
        return sorted(str(self._targets.load(row[0])[0]) for row in rows if row[0] in readable)

    def fitting_records(
        self, mod: IRModule, target: Target, workload_name: str = "main"
    ) -> Iterator[TuningRecord]:
        """The valid records of a program that may be used for a target, the best first."""
        wanted = identity_of(target)
        fits: dict[int | None, Fit | None] = {None: Fit.UNKNOWN}
        fits.update((row_id, fit(known, wanted)) for row_id, known in self._targets.all().items())
        workload_ids = self._workloads.ids_of(mod)
        for wanted_fit in Fit:
            target_ids = [row_id for row_id, found_fit in fits.items() if found_fit is wanted_fit]
            for record in self._valid_records(workload_ids, target_ids) if target_ids else ():
                if fit_of_record(record, target) is not None:
                    yield record

    # --- what the tuner keeps beside records ------------------------------------------------

    def save_state(self, key: str, value: object) -> None:
        text = to_json(value, f"the state {key!r}")
        statement = (
            "INSERT INTO state VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        )
        self.atomically(lambda: self._store.execute(statement, (key, text)))

    def load_state(self, key: str) -> Any:
        rows = self._store.rows("SELECT value FROM state WHERE key = ?", (key,))
        if not rows:
            return None
        try:
            with decoding(f"the state {key!r} in {self._store.name} is damaged", StoredDataError):
                return msgspec.json.decode(rows[0][0])
        except StoredDataError as error:
            logger.warning("%s", error)
            return None

    # --- looking after the file -------------------------------------------------------------

    def problems(self) -> list[Problem]:
        """Rows that cannot be read or whose trace makes no sense. Looks at all of them."""
        checks: list[tuple[str, str, Callable[[Any], object]]] = [
            ("workloads", "id", lambda row: self._workloads.load(row[0])),
            ("targets", "id", lambda row: self._targets.load(row[0])),
            ("records", COLUMNS, lambda row: self._read_or_raise(row).trace.insts),
        ]
        found: list[Problem] = []
        for table, columns, check in checks:
            for row in self._store.rows(f"SELECT {columns} FROM {table} ORDER BY id"):
                readable(table, row[0], row, check, found.append)
        return [*self._store.problems, *found, *self.history.problems()]

    def _report(self, problem: Problem) -> None:
        if problem not in self._reported:
            self._reported.add(problem)
            logger.warning("%s: skipped a row: %s", self._store.name, problem)

    def keep_only(self, records: Iterable[TuningRecord]) -> None:
        """Forget all other records and give their space back. The history stays."""
        kept = list(records)
        self.atomically(lambda: self._delete_others(kept))
        self._store.reclaim()

    def _delete_others(self, records: Iterable[TuningRecord]) -> None:
        kept = {self._key(record) for record in records}
        rows = self._store.rows("SELECT id, key FROM records")
        gone = [row_id for row_id, key in rows if key not in kept]
        for start in range(0, len(gone), BATCH):
            some = gone[start : start + BATCH]
            self._store.execute(f"DELETE FROM records WHERE id IN ({marks(some)})", some)

    def _key(self, record: TuningRecord) -> bytes:
        workload_id = self._adopt(record.workload)
        text = trace_text(record.trace)
        return record_key(self._workloads.hash_of(workload_id), text, record)


def _where(
    workload_ids: list[int], target_ids: list[int | None] | None
) -> tuple[str, list[int | None]]:
    """The condition for usable records of some workloads, and of some targets if they matter."""
    where = f"workload_id IN ({marks(workload_ids)}) AND valid = 1"
    values: list[int | None] = list(workload_ids)
    if target_ids is None:
        return where, values
    # `IN` never finds NULL; no id is 0.
    known = [0 if target_id is None else target_id for target_id in target_ids]
    where += f" AND coalesce(target_id, 0) IN ({marks(known)})"
    return where, [*values, *known]
