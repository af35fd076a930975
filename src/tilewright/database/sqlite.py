"""The default database: one SQLite file, one writer, any number of readers that never block it.

A record that was committed is on disk and stays there whatever happens to the process; committing
it again changes nothing. Rows that cannot be read are skipped and reported, never fatal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tilewright.database import similarity
from tilewright.database.base import Database, check_top_k, databases, logger
from tilewright.database.compatibility import Fit, fit, fit_of_record, identity_of
from tilewright.database.history import History, trial_of
from tilewright.database.sqlite_file import SQLiteFile
from tilewright.database.sqlite_rows import (
    COLUMNS,
    INSERT,
    UPDATE,
    RecordRow,
    insertion,
    record_from_row,
    to_json,
)
from tilewright.database.sqlite_workloads import SQLiteTargets, SQLiteWorkloads
from tilewright.database.stored_record import Problem, readable, record_key, trace_text
from tilewright.errors import DatabaseError, StoredDataError
from tilewright.ir import IRModule
from tilewright.records import TuningRecord, Workload
from tilewright.support.decoding import decoding
from tilewright.target import Target

DEFAULT_NAME = "tilewright.db"
_FIRST_PAGE = 8  # most who ask want the best few


@databases.register("sqlite")
class SQLiteDatabase(Database):
    """A database in a file. `read_only` opens it beside a writer without disturbing it."""

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        work_dir: str | Path | None = None,
        module_equality: str = "structural",
        read_only: bool = False,
        allow_missing: bool = True,
    ) -> None:
        if path is None:
            if work_dir is None:
                raise DatabaseError("an SQLite database needs a path or a work_dir")
            path = Path(work_dir) / DEFAULT_NAME
        self.path = str(path)
        self._file = SQLiteFile(self.path, read_only, allow_missing, (module_equality,))
        self._workloads = SQLiteWorkloads(self._file, module_equality)
        self._targets = SQLiteTargets(self._file)
        self._history = History(self._file)
        self._new_workloads: list[int] = []  # of the open transaction
        self._reported: set[Problem] = set()

    def close(self) -> None:
        self._file.close()

    @property
    def history(self) -> History:
        return self._history

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside becomes durable together, or not at all; may be nested."""
        with self._file.lock:
            is_outermost = not self._file.connection.in_transaction
            try:
                with self._file.transaction():
                    yield
            except BaseException:
                if is_outermost:  # their ids will be given again
                    for row_id in self._new_workloads:
                        self._workloads.forget(row_id)
                    self._targets.forget_all()
                raise
            finally:
                if is_outermost:
                    self._new_workloads.clear()

    # --- workloads --------------------------------------------------------------------------

    def has_workload(self, mod: IRModule) -> bool:
        return self._workloads.find(mod) is not None

    def commit_workload(self, mod: IRModule) -> Workload:
        found = self._workloads.find(mod)
        if found is not None:
            return found
        with self.transaction():
            # Another writer may have been quicker, so look again where nobody else can write.
            found = self._workloads.find(mod)
            if found is None:
                return self._workloads.load(self._adopt(Workload(mod, 0)))
        return found

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
        with self.transaction():
            return sum(map(self._insert, records))

    def _insert(self, record: TuningRecord) -> int:
        workload_id = self._adopt(record.workload)
        target_id = self._targets.add(record)
        row = insertion(record, workload_id, self._workloads.hash_of(workload_id), target_id)
        inserted = self._file.connection.execute(INSERT, row).rowcount
        if record.extra.get("run") is not None:
            ((record_id,),) = self._file.rows("SELECT id FROM records WHERE key = ?", row[:1])
            trial = trial_of(record, record_id)
            if trial is not None:
                self._history.add_trials([trial])
        return int(inserted)

    def correct_record(self, record: TuningRecord, corrected: TuningRecord) -> bool:
        """Put another record in the place of one."""
        with self.transaction():
            workload_id = self._adopt(record.workload)
            workload_hash = self._workloads.hash_of(workload_id)
            target_id = self._targets.add(corrected)
            row = insertion(corrected, workload_id, workload_hash, target_id)
            changed = self._file.connection.execute(UPDATE, (*row, self._key(record)))
        return bool(changed.rowcount)

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        check_top_k(top_k)
        chosen: list[TuningRecord] = []
        if top_k:
            for record in self._valid_records(self._workloads.ids_equal_to(workload)):
                chosen.append(record)
                if len(chosen) == top_k:
                    break
        return chosen

    def _valid_records(
        self, workload_ids: list[int], target_ids: list[int | None] | None = None
    ) -> Iterator[TuningRecord]:
        """Usable records of some targets or of all, fastest first, read as far as they are used."""
        where, values = _where(workload_ids, target_ids)
        seen: set[int] = set()  # a writer may move them while we read
        size = _FIRST_PAGE
        while True:
            rows = self._file.rows(
                f"SELECT id FROM records WHERE {where} ORDER BY mean, id LIMIT ? OFFSET ?",
                [*values, size, len(seen)],
            )
            for (record_id,) in rows:
                record = self._record(record_id) if record_id not in seen else None
                if record is not None and record.is_valid:
                    yield record
            seen.update(record_id for (record_id,) in rows)
            if len(rows) < size:
                return
            size *= 4

    def _record(self, record_id: int) -> TuningRecord | None:
        rows = self._file.rows(f"SELECT {COLUMNS} FROM records WHERE id = ?", (record_id,))
        return self._read(rows[0]) if rows else None

    def _read(self, row: RecordRow) -> TuningRecord | None:
        """The record of a row; None, and a warning, if it is damaged."""
        return readable("records", row[0], row, self._read_or_raise, self._report)

    def _read_or_raise(self, row: RecordRow) -> TuningRecord:
        target, identity = self._targets.load(row[2])
        return record_from_row(row, self._workloads.load(row[1]), target, identity)

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return self._records("TRUE", ())

    def get_tuning_records_of(self, workload: Workload) -> list[TuningRecord]:
        workload_ids = self._workloads.ids_equal_to(workload)
        marks = ", ".join("?" * len(workload_ids))
        return self._records(f"workload_id IN ({marks})", workload_ids)

    def _records(self, where: str, values: Sequence[int]) -> list[TuningRecord]:
        rows = self._file.rows(f"SELECT {COLUMNS} FROM records WHERE {where} ORDER BY id", values)
        return [record for record in map(self._read, rows) if record is not None]

    def __len__(self) -> int:
        return int(self._file.rows("SELECT count(*) FROM records")[0][0])

    def targets_of(self, mod: IRModule) -> list[str]:
        where, values = _where(self._workloads.ids_of(mod), None)
        rows = self._file.rows(f"SELECT DISTINCT target_id FROM records WHERE {where}", values)
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
        with self.transaction():
            self._file.connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, text))

    def load_state(self, key: str) -> Any:
        rows = self._file.rows("SELECT value FROM state WHERE key = ?", (key,))
        if not rows:
            return None
        try:
            with decoding(f"the state {key!r} in {self.path} is damaged", StoredDataError):
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
            for row in self._file.rows(f"SELECT {columns} FROM {table} ORDER BY id"):
                readable(table, row[0], row, check, found.append)
        return [*self._file.problems, *found, *self._history.problems()]

    def _report(self, problem: Problem) -> None:
        if problem not in self._reported:
            self._reported.add(problem)
            logger.warning("%s: skipped a row: %s", self.path, problem)

    def keep_only(self, records: Iterable[TuningRecord]) -> None:
        """Forget all other records and give their space back. The history stays."""
        with self.transaction():
            kept = {self._key(record) for record in records}
            rows = self._file.rows("SELECT id, key FROM records")
            self._file.connection.executemany(
                "DELETE FROM records WHERE id = ?", [(i,) for i, key in rows if key not in kept]
            )
        self._file.rows("VACUUM")

    def _key(self, record: TuningRecord) -> bytes:
        workload_id = self._adopt(record.workload)
        text = trace_text(record.trace)
        return record_key(self._workloads.hash_of(workload_id), text, record)


def _where(
    workload_ids: list[int], target_ids: list[int | None] | None
) -> tuple[str, list[int | None]]:
    """The condition for usable records of some workloads, and of some targets if they matter."""
    where = f"workload_id IN ({', '.join('?' * len(workload_ids))}) AND valid = 1"
    values: list[int | None] = list(workload_ids)
    if target_ids is None:
        return where, values
    # `IN` never finds NULL; no id is 0.
    known = [0 if target_id is None else target_id for target_id in target_ids]
    where += f" AND coalesce(target_id, 0) IN ({', '.join('?' * len(known))})"
    return where, [*values, *known]
