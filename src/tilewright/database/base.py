"""What a database of tuning records is."""

from __future__ import annotations

import contextvars
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any

from typing_extensions import Self

from tilewright.errors import DatabaseError
from tilewright.ir import IRModule
from tilewright.records import TuningRecord, Workload
from tilewright.schedule import Schedule
from tilewright.support.plugins import Family
from tilewright.target import Target

_scopes: contextvars.ContextVar[tuple[Database, ...]] = contextvars.ContextVar(
    "tilewright_database_scopes", default=()
)


class Database(ABC):
    """Workloads and what was measured of them. `with database:` makes it the current one."""

    @abstractmethod
    def has_workload(self, mod: IRModule) -> bool:
        """Is the program known?"""

    @abstractmethod
    def commit_workload(self, mod: IRModule) -> Workload:
        """The workload of a program, added if it is new."""

    @abstractmethod
    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Keep a record. It is safe on disk when the call returns, if the database is on disk."""

    @abstractmethod
    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """The fastest valid records of a workload, fastest first."""

    @abstractmethod
    def get_all_tuning_records(self) -> list[TuningRecord]:
        """All records, failed ones too."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of records."""

    @abstractmethod
    def query_tuning_record(
        self, mod: IRModule, target: Target, workload_name: str
    ) -> TuningRecord | None:
        """The fastest record of a program that fits the target."""

    def query_schedule(self, mod: IRModule, target: Target, workload_name: str) -> Schedule | None:
        """The schedule of the fastest record that fits the target."""
        record = self.query_tuning_record(mod, target, workload_name)
        return None if record is None else record.as_measure_candidate().sch

    def query_ir_module(self, mod: IRModule, target: Target, workload_name: str) -> IRModule | None:
        """The program as the fastest record that fits the target makes it."""
        sch = self.query_schedule(mod, target, workload_name)
        return None if sch is None else sch.mod

    def query(
        self, mod: IRModule, target: Target, *, workload_name: str = "main", kind: str = "schedule"
    ) -> Schedule | TuningRecord | IRModule | None:
        """One of the three queries by name."""
        match kind:
            case "schedule":
                return self.query_schedule(mod, target, workload_name)
            case "record":
                return self.query_tuning_record(mod, target, workload_name)
            case "ir_module":
                return self.query_ir_module(mod, target, workload_name)
        raise DatabaseError(
            f"unknown kind of query {kind!r}; use 'schedule', 'record' or 'ir_module'"
        )

    def __enter__(self) -> Self:
        _scopes.set((*_scopes.get(), self))
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _scopes.set(_scopes.get()[:-1])

    @staticmethod
    def current() -> Database | None:
        """The database of the innermost `with` scope."""
        scopes = _scopes.get()
        return scopes[-1] if scopes else None


databases: Family[Any] = Family("database", "tilewright.database")
