"""A database that schedules by a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilewright.database.base import databases
from tilewright.database.module_equality import get_module_equality
from tilewright.database.query_only import QueryOnlyDatabase
from tilewright.errors import DatabaseError
from tilewright.ir import IRModule
from tilewright.records import TuningRecord, Workload, args_info_of
from tilewright.schedule import Schedule
from tilewright.target import Target


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
