"""Gives tasks of an interrupted run a result if nothing of them was measured.

The schedule is calculated and measured, and checked if that is quick. Whoever presses Ctrl-C again
does not wait for it.
"""

from __future__ import annotations

from tilewright.database import Database
from tilewright.records import BASELINE, ZERO_SEARCH, MeasureCandidate, TuningRecord, args_info_of
from tilewright.tune.fallback import default_schedule
from tilewright.tune.measuring import Measuring
from tilewright.tune.task import TaskRecord


def has_result(task: TaskRecord, database: Database) -> bool:
    """Is there a schedule of the task that works on its target?"""
    return database.query_tuning_record(task.mod, task.target, task.ctx.task_name) is not None


def keep_without_search(task: TaskRecord, database: Database, measurer: Measuring) -> None:
    """Measure the schedule that needs no search, and make it a record."""
    sch = default_schedule(task.mod, task.target)
    candidate = MeasureCandidate(sch, args_info_of(sch.mod))
    measured = measurer.measure(task, [candidate], lambda *phase: None, is_quick=True)
    if measured.interrupt is not None:
        raise measured.interrupt
    workload, (result,) = database.commit_workload(task.mod), measured.results
    extra = {"run": task.run, "task": task.ctx.task_name, BASELINE: ZERO_SEARCH}
    database.commit_tuning_record(TuningRecord.of(candidate, workload, task.target, result, extra))
