"""Several databases asked in order: the first that has a record wins."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.database.base import Database, databases
from tilewright.database.query_only import QueryOnlyDatabase
from tilewright.ir import IRModule
from tilewright.records import TuningRecord
from tilewright.target import Target


@databases.register("ordered_union")
class OrderedUnionDatabase(QueryOnlyDatabase):
    """Answers queries with the best record of the first member that has one."""

    def __init__(self, *dbs: Database) -> None:
        self._members = dbs

    def members(self) -> tuple[Database, ...]:
        return self._members

    def fitting_records(
        self, mod: IRModule, target: Target, workload_name: str = "main"
    ) -> Iterator[TuningRecord]:
        for db in self._members:
            yield from db.fitting_records(mod, target, workload_name)
