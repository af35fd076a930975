"""Several databases asked as one: the fastest record of all wins."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from tilewright.database.base import Database, databases
from tilewright.database.compatibility import fit_of_record
from tilewright.database.query_only import QueryOnlyDatabase
from tilewright.ir import IRModule
from tilewright.records import TuningRecord
from tilewright.target import Target


@databases.register("union")
class UnionDatabase(QueryOnlyDatabase):
    """Answers queries with the fastest record among its members."""

    def __init__(self, *dbs: Database) -> None:
        self._members = dbs

    def members(self) -> tuple[Database, ...]:
        return self._members

    def fitting_records(
        self, mod: IRModule, target: Target, workload_name: str = "main"
    ) -> Iterator[TuningRecord]:
        def rank(record: TuningRecord) -> tuple[int, float]:
            fit = fit_of_record(record, target)
            return (0 if fit is None else int(fit), record.mean_secs)

        parts = (db.fitting_records(mod, target, workload_name) for db in self._members)
        return heapq.merge(*parts, key=rank)
