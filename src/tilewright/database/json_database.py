"""TVM's database: two files of JSON lines, one for workloads and one for records.

Records hold trace, seconds, target and arguments and nothing else, so failures keep no cause and
the history is not on disk. For everything else use the SQLite database. Several processes may write
in turn: each takes a lock and reads what the others have added first.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tilewright.database.base import databases, logger, speed_order
from tilewright.database.history import trial_of
from tilewright.database.memory import RecordTable, TableDatabase, adopted
from tilewright.database.sql_rows import to_json
from tilewright.database.stored_record import Problem, readable
from tilewright.database.tvm_format import json_lines
from tilewright.database.tvm_format.dialects import TVM_014, get_dialect
from tilewright.database.tvm_format.line_file import LineFile
from tilewright.errors import DatabaseError, StoredDataError, TilewrightError
from tilewright.ir import IRModule
from tilewright.records import TuningRecord, Workload
from tilewright.support.decoding import decoding

WORKLOAD_FILE = "database_workload.json"
RECORD_FILE = "database_tuning_record.json"
STATE_FILE = "database_state.json"


@databases.register("json")
class JSONDatabase(TableDatabase):
    """TVM's two files, read and appended to.

    `dialect` is the version of TVM that new lines are written for, "0.14" or "0.25"; without it
    that of the lines that are there, or 0.14. Traces are read when they are used, never replayed.
    """

    def __init__(
        self,
        path_workload: str | Path | None = None,
        path_tuning_record: str | Path | None = None,
        *,
        work_dir: str | Path | None = None,
        allow_missing: bool = True,
        module_equality: str = "structural",
        dialect: str | None = None,
    ) -> None:
        self.path_workload = str(_path(path_workload, work_dir, WORKLOAD_FILE))
        self.path_tuning_record = str(_path(path_tuning_record, work_dir, RECORD_FILE))
        self._workload_file = _opened(self.path_workload, allow_missing)
        self._record_file = _opened(self.path_tuning_record, allow_missing)
        self._state_file = LineFile(Path(self.path_workload).with_name(STATE_FILE))
        super().__init__(module_equality)
        self._rows: list[Workload | None] = []  # by the line of the workload file
        self._index: dict[Workload, int] = {}  # of those whose line is on disk
        self._records = {}  # by their lines: no line counts twice
        self._table = RecordTable()
        self._problems: list[Problem] = []
        self._guard = threading.RLock()
        self._pending: _Pending | None = None  # of the transaction
        self._added = 0  # records that were new when they were committed here
        with self._workload_file.lock():
            self._catch_up()
        lines = self._workload_file.read(), self._record_file.read()
        found = json_lines.dialect_of_lines(*lines) or TVM_014
        self._dialect = found if dialect is None else get_dialect(dialect)

    # --- reading the files ------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Read what was added since the last time. Whoever writes does so first, under the lock."""
        for number, line in self._workload_file.new_lines():
            self._rows.append(self._read_workload(number, line))
        if self._record_file.was_replaced():
            self._replace_records({})
        for number, line in self._record_file.new_lines():
            self._read_record(number, line)

    def _read_workload(self, number: int, line: bytes) -> Workload | None:
        workload = readable(
            WORKLOAD_FILE,
            number,
            line,
            lambda line: self._workloads.adopt(Workload(json_lines.module_from_line(line), 0))[0],
            self._report,
        )
        if workload is not None:
            self._index.setdefault(workload, len(self._rows))
        return workload

    def _read_record(self, number: int, line: bytes) -> None:
        read = functools.partial(json_lines.record_from_line, workloads=self._rows)
        record = readable(RECORD_FILE, number, line, read, self._report)
        if record is not None:
            self._keep(line, record)

    def _report(self, problem: Problem) -> None:
        self._problems.append(problem)
        logger.warning("skipped a line: %s", problem)

    def _keep(self, line: bytes, record: TuningRecord) -> bool:
        if line in self._records:
            return False
        self._records[line] = record
        self._table.add(record)
        return True

    def _replace_records(self, records: dict[bytes, TuningRecord]) -> None:
        self._records, self._table = records, RecordTable()
        for record in records.values():
            self._table.add(record)

    # --- committing -------------------------------------------------------------------------

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Lines are written together at the end; an error does not undo those before it."""
        with self._guard:
            if self._pending is not None:
                yield
                return
            self._pending = _Pending()
            try:
                yield
            finally:
                pending, self._pending = self._pending, None
                self._write(pending)

    def _write(self, pending: _Pending) -> None:
        """Indices are taken where no other process can take them, once their lines are on disk."""
        if not pending.workloads and not pending.records:
            return
        try:
            with self._workload_file.lock():
                self._catch_up()
                self._write_workloads(pending.workloads)
                self._write_records(pending.records)
        finally:
            for workload in pending.workloads:
                if workload not in self._index:
                    self._workloads.remove(workload)

    def _write_workloads(self, lines: Mapping[Workload, str]) -> None:
        new = [workload for workload in lines if workload not in self._index]
        self._workload_file.append([lines[workload] for workload in new])
        for workload in new:
            self._index[workload] = len(self._rows)
            self._rows.append(workload)

    def _write_records(self, contents: Sequence[tuple[TuningRecord, str]]) -> None:
        lines = {
            json_lines.record_line(content, self._index[record.workload]): record
            for record, content in contents
        }
        new = {line: record for line, record in lines.items() if line.encode() not in self._records}
        self._record_file.append(list(new))
        self._added += len(new)
        for line, record in new.items():
            self._keep(line.encode(), record)
        trials = [trial_of(record) for record, _ in contents]
        self.history.add_trials([trial for trial in trials if trial is not None])

    def commit_workload(self, mod: IRModule) -> Workload:
        with self.transaction():
            return self._written(*self._workloads.add(mod))

    def _written(self, workload: Workload, is_new: bool) -> Workload:
        """The workload, with its line in the transaction if it is new."""
        if is_new and self._pending is not None:
            line = json_lines.workload_line(workload.mod, workload.shash, self._dialect)
            self._pending.workloads[workload] = line
        return workload

    def commit_tuning_records(self, records: Iterable[TuningRecord]) -> int:
        with self._guard:
            before = self._added  # others may add some meanwhile
            super().commit_tuning_records(records)
            return self._added - before

    def commit_tuning_record(self, record: TuningRecord) -> None:
        with self.transaction():
            own = adopted(record, self._written(*self._workloads.adopt(record.workload)))
            content = json_lines.record_content(own, self._dialect)
            if self._pending is not None:
                self._pending.records.append((own, content))

    # --- asking -----------------------------------------------------------------------------

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """All records, fastest first."""
        return sorted(self._records.values(), key=speed_order)

    def problems(self) -> list[Problem]:
        """Lines that cannot be read, or whose trace makes no sense. Looks at all of them."""
        found = list(self._problems)
        numbers = {line: number for number, line in enumerate(self._record_file.read(), 1)}
        for line, record in self._records.items():
            try:
                _ = record.trace.insts
            except TilewrightError as error:
                found.append(Problem(RECORD_FILE, numbers.get(line, 0), str(error)))
        return found

    def keep_only(self, records: Iterable[TuningRecord]) -> None:
        """Forget all other records, but for those that another process has added meanwhile."""
        kept = set(map(id, records))
        with self._guard, self._workload_file.lock():
            gone = {line for line, record in self._records.items() if id(record) not in kept}
            self._catch_up()
            left = {line: record for line, record in self._records.items() if line not in gone}
            self._record_file.rewrite(list(left))
            self._replace_records(left)

    # --- state ------------------------------------------------------------------------------

    def save_state(self, key: str, value: object) -> None:
        with self._guard, self._workload_file.lock():
            states = {**self._states(), key: value}
            self._state_file.rewrite([to_json(states, f"the state {key!r}").encode()])

    def load_state(self, key: str) -> object:
        return self._states().get(key)

    def _states(self) -> dict[str, object]:
        text = b"\n".join(self._state_file.read())
        if not text:
            return {}
        try:
            with decoding(f"{self._state_file.path} is damaged and not used", StoredDataError):
                return msgspec.json.decode(text, type=dict[str, object])
        except StoredDataError as error:
            logger.warning("%s", error)
            return {}


@dataclass
class _Pending:
    """What a transaction will write."""

    workloads: dict[Workload, str] = field(default_factory=dict)  # with their lines
    # With what their lines say.
    records: list[tuple[TuningRecord, str]] = field(default_factory=list)


def _path(path: str | Path | None, work_dir: str | Path | None, name: str) -> Path:
    if path is not None:
        return Path(path)
    if work_dir is None:
        raise DatabaseError("a JSON database needs a work_dir, or the paths of both files")
    return Path(work_dir) / name


def _opened(path: str, allow_missing: bool) -> LineFile:
    file = Path(path)
    if not file.exists():
        if not allow_missing:
            raise DatabaseError(f"there is no file {path}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        except OSError as error:
            raise DatabaseError(f"cannot make {path}: {error.strerror or error}") from error
    return LineFile(file)
