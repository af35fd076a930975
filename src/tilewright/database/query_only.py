"""Databases that store no records: unions of others, and a function that schedules programs."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import NoReturn

from tilewright.database.base import Database, NotSupportedError, databases, speed_order
from tilewright.database.compatibility import fit_of_record
from tilewright.database.module_equality import get_module_equality
from tilewright.errors import DatabaseError
from tilewright.ir import IRModule
from tilewright.records import TuningRecord, Workload, args_info_of
from tilewright.schedule import Schedule
from tilewright.target import Target


def _refusal(operation: str) -> Callable[..., NoReturn]:
    """A method that says what cannot be done."""

    def refuse(self: Database, *args: object) -> NoReturn:
        raise NotSupportedError(
            f"{type(self).__name__} only answers queries, {operation} is not one; "
            "use the database that keeps the records"
        )

    return refuse


class QueryOnlyDatabase(Database):
    """What all of them refuse, and what follows from the databases that they ask."""

    _members: tuple[Database, ...] = ()  # the databases that are asked

    @property
    def allows_unsafe(self) -> bool:  # type: ignore[override] # what its members allow
        """All of its members do."""
        return bool(self._members) and all(member.allows_unsafe for member in self._members)

    def has_workload(self, mod: IRModule) -> bool:
        return any(db.has_workload(mod) for db in self._members)

    commit_workload = _refusal("commit_workload")
    commit_tuning_record = _refusal("commit_tuning_record")
    get_top_k = _refusal("get_top_k")
    get_all_tuning_records = _refusal("get_all_tuning_records")
    __len__ = _refusal("len")

    def __bool__(self) -> bool:
        return True  # has no length, yet it is a database

    def workloads(self) -> list[Workload]:
        return [workload for db in self._members for workload in db.workloads()]

    def valid_records(self, mod: IRModule) -> list[TuningRecord]:
        records = [record for db in self._members for record in db.valid_records(mod)]
        return sorted(records, key=speed_order)


@databases.register("union")
class UnionDatabase(QueryOnlyDatabase):
    """Answers queries with the fastest record among its members."""

    def __init__(self, *dbs: Database) -> None:
        self._members = dbs

    def fitting_records(
        self, mod: IRModule, target: Target, workload_name: str = "main"
    ) -> Iterator[TuningRecord]:
        def rank(record: TuningRecord) -> tuple[int, float]:
            fit = fit_of_record(record, target)
            return (0 if fit is None else int(fit), record.mean_secs)

        parts = (db.fitting_records(mod, target, workload_name) for db in self._members)
        return heapq.merge(*parts, key=rank)


@databases.register("ordered_union")
class OrderedUnionDatabase(UnionDatabase):
    """Answers queries with the best record of the first member that has one."""

    def fitting_records(
        self, mod: IRModule, target: Target, workload_name: str = "main"
    ) -> Iterator[TuningRecord]:
        for db in self._members:
            yield from db.fitting_records(mod, target, workload_name)


@databases.register("schedule_fn")
class ScheduleFnDatabase(QueryOnlyDatabase):
    """Calls `schedule_fn(sch)` for each query; it schedules in place and returns whether it did."""

    def __init__(
        self, schedule_fn: Callable[[Schedule], bool], module_equality: str = "structural"
    ) -> None:
        if not callable(schedule_fn):
            raise DatabaseError(f"schedule_fn must be a function, got {schedule_fn!r}")
        self.schedule_fn = schedule_fn
        self._equality = get_module_equality(module_equality)

    def fitting_records(
        self, mod: IRModule, target: Target, workload_name: str = "main"
    ) -> Iterator[TuningRecord]:
        sch = self._scheduled(mod, workload_name)
        if sch is not None and sch.trace is not None:
            workload = Workload(mod, self._equality.hash(mod))
            yield TuningRecord(sch.trace, workload, None, target, args_info_of(mod))

    def query_schedule(
        self, mod: IRModule, target: Target, workload_name: str = "main"
    ) -> Schedule | None:
        """The schedule itself: what a function did need not be replayed."""
        return self._scheduled(mod, workload_name)

    def _scheduled(self, mod: IRModule, workload_name: str) -> Schedule | None:
        sch = Schedule(mod.with_attr("task_name", workload_name))
        done = self.schedule_fn(sch)
        if not isinstance(done, bool):
            raise DatabaseError(
                "a schedule function returns True if it scheduled the program and False if not, "
                f"got {done!r}"
            )
        return sch if done else None
