"""TVM's database: two files of JSON lines, one for workloads and one for records.

Records hold trace, seconds, target and arguments and nothing else, so failures keep no cause and
the history is not on disk. For everything else use the SQLite database. One process may write.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tilewright.database.base import Database, check_top_k, databases, logger
from tilewright.database.history import trial_of
from tilewright.database.memory import RecordTable, WorkloadTable, adopted
from tilewright.database.problem import Problem
from tilewright.database.sqlite_rows import to_json
from tilewright.database.tvm_format.dialects import TVM_014, Dialect, get_dialect
from tilewright.database.tvm_format.json_lines import (
    dialect_of_lines,
    module_from_line,
    workload_line,
)
from tilewright.database.tvm_format.line_file import LineFile
from tilewright.database.tvm_format.record_line import RecordLineReader, record_line
from tilewright.errors import DatabaseError, TilewrightError
from tilewright.ir import IRModule
from tilewright.records import TuningRecord, Workload

WORKLOAD_FILE = "database_workload.json"
RECORD_FILE = "database_tuning_record.json"
STATE_FILE = "database_state.json"


@databases.register("json")
class JSONDatabase(Database):
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
        self._state_file = Path(self.path_workload).with_name(STATE_FILE)
        self._workloads = WorkloadTable(module_equality)
        self._rows: list[Workload | None] = []  # by the line of the workload file
        self._index: dict[Workload, int] = {}
        self._records: dict[bytes, TuningRecord] = {}  # by their lines: no line counts twice
        self._table = RecordTable()
        self._problems: list[Problem] = []
        self._pending: tuple[list[str], list[str]] | None = None  # lines of the transaction
        self._dialect = self._load(dialect)

    # --- reading the files ------------------------------------------------------------------

    def _load(self, dialect: str | None) -> Dialect:
        workloads, records = self._workload_file.read(), self._record_file.read()
        for number, line in enumerate(workloads):
            if line.strip():
                self._rows.append(self._read_workload(number, line))
        reader = RecordLineReader()
        for number, line in enumerate(records):
            if line.strip():
                self._read_record(number, line, reader)
        if dialect is not None:
            return get_dialect(dialect)
        return dialect_of_lines(workloads, records) or TVM_014

    def _read_workload(self, number: int, line: bytes) -> Workload | None:
        try:
            mod = module_from_line(line)
        except TilewrightError as error:
            self._report(Problem(WORKLOAD_FILE, number + 1, str(error)))
            return None
        workload, _ = self._workloads.adopt(Workload(mod, 0))
        self._index.setdefault(workload, len(self._rows))
        return workload

    def _read_record(self, number: int, line: bytes, reader: RecordLineReader) -> None:
        try:
            record = reader.read(line, self._rows)
        except TilewrightError as error:
            self._report(Problem(RECORD_FILE, number + 1, str(error)))
            return
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

    # --- committing -------------------------------------------------------------------------

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Lines are written together at the end; an error does not undo those before it."""
        if self._pending is not None:
            yield
            return
        self._pending = [], []
        try:
            yield
        finally:
            workloads, records = self._pending
            self._pending = None
            self._workload_file.append(workloads)
            self._record_file.append(records)

    def has_workload(self, mod: IRModule) -> bool:
        return self._workloads.find(mod) is not None

    def commit_workload(self, mod: IRModule) -> Workload:
        workload, is_new = self._workloads.add(mod)
        if is_new:
            self._write_workload(workload)
        return workload

    def _adopt(self, foreign: Workload) -> Workload:
        workload, is_new = self._workloads.adopt(foreign)
        if is_new:
            self._write_workload(workload)
        return workload

    def _write_workload(self, workload: Workload) -> None:
        self._index[workload] = len(self._rows)
        self._rows.append(workload)
        line = workload_line(workload.mod, workload.shash, self._dialect)
        with self.transaction():
            self._lines()[0].append(line)

    def _lines(self) -> tuple[list[str], list[str]]:
        if self._pending is None:
            raise DatabaseError("lines are written inside a transaction")
        return self._pending

    def commit_tuning_record(self, record: TuningRecord) -> None:
        with self.transaction():
            own = adopted(record, self._adopt(record.workload))
            line = record_line(own, self._index[own.workload], self._dialect)
            if self._keep(line.encode(), own):
                self._lines()[1].append(line)
        trial = trial_of(own)
        if trial is not None:
            self.history.add_trials([trial])

    # --- asking -----------------------------------------------------------------------------

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        check_top_k(top_k)
        return self._table.top(self._workloads.equal_to(workload), top_k)

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """All records, fastest first."""
        return sorted(self._records.values(), key=lambda record: record.mean_secs)

    def workloads(self) -> list[Workload]:
        return self._workloads.all()

    def __len__(self) -> int:
        return len(self._records)

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
        """Forget all other records."""
        kept = set(map(id, records))
        lines = {line: record for line, record in self._records.items() if id(record) in kept}
        self._record_file.rewrite(list(lines))
        self._records, self._table = lines, RecordTable()
        for record in lines.values():
            self._table.add(record)

    # --- state ------------------------------------------------------------------------------

    def save_state(self, key: str, value: Any) -> None:
        states = {**self._states(), key: value}
        LineFile(self._state_file).rewrite([to_json(states, f"the state {key!r}").encode()])

    def load_state(self, key: str) -> Any:
        return self._states().get(key)

    def _states(self) -> dict[str, Any]:
        if not self._state_file.exists():
            return {}
        try:
            return msgspec.json.decode(self._state_file.read_bytes(), type=dict[str, Any])
        except msgspec.DecodeError as error:
            logger.warning("%s is damaged and not used: %s", self._state_file, error)
            return {}


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
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return LineFile(file)
