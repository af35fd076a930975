"""Databases that answer queries and keep nothing."""

from __future__ import annotations

from typing import NoReturn

from tilewright.database.base import Database, NotSupportedError
from tilewright.ir import IRModule
from tilewright.records import TuningRecord, Workload


class QueryOnlyDatabase(Database):
    """What all of them refuse, and what follows from their members."""

    def members(self) -> tuple[Database, ...]:
        """The databases that are asked."""
        return ()

    @property
    def allows_unsafe(self) -> bool:  # type: ignore[override] # what its members allow
        """All of its members do."""
        members = self.members()
        return bool(members) and all(member.allows_unsafe for member in members)

    def has_workload(self, mod: IRModule) -> bool:
        return any(db.has_workload(mod) for db in self.members())

    def commit_workload(self, mod: IRModule) -> Workload:
        self._refuse("commit_workload")

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self._refuse("commit_tuning_record")

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        self._refuse("get_top_k")

    def get_all_tuning_records(self) -> list[TuningRecord]:
        self._refuse("get_all_tuning_records")

    def __len__(self) -> int:
        self._refuse("len")

    def __bool__(self) -> bool:
        return True  # has no length, yet it is a database

    def workloads(self) -> list[Workload]:
        return [workload for db in self.members() for workload in db.workloads()]

    def valid_records(self, mod: IRModule) -> list[TuningRecord]:
        records = [record for db in self.members() for record in db.valid_records(mod)]
        return sorted(records, key=lambda record: record.mean_secs)

    def _refuse(self, operation: str) -> NoReturn:
        raise NotSupportedError(
            f"{type(self).__name__} only answers queries, {operation} is not one; "
            "use the database that keeps the records"
        )
