"""Candidates that no search found: the schedule without a search, and the program as it is.

They are the first two of a search, measured like all others, so that what it ends with is never
slower than either. The program itself comes second: where its plain loops are clearly slower, they
are not run again. A task of an interrupted run of which nothing was measured gets the first as its
result; whoever presses Ctrl-C again does not wait for it.
"""

from __future__ import annotations

from tilewright.database import Database
from tilewright.ir import structural_equal
from tilewright.records import (
    BASELINE,
    PLAIN,
    ZERO_SEARCH,
    MeasureCandidate,
    TuningRecord,
    args_info_of,
)
from tilewright.schedule import Schedule
from tilewright.tune.fallback import best_of_sketches, default_schedule
from tilewright.tune.measuring import Measuring
from tilewright.tune.task import TaskRecord


def baselines_of(task: TaskRecord) -> dict[str, MeasureCandidate]:
    """The candidates that come before those of the search, by name; none if it has begun.

    Spaces of the user's own have none: their searches stay inside of them.
    """
    space, mod = task.ctx.space_generator, task.mod
    if task.trials or space is None or not space.has_baselines:
        return {}
    infos, plain = args_info_of(mod), Schedule(mod)
    found = {PLAIN: MeasureCandidate(plain, infos)}
    best = best_of_sketches(task.ctx, task.search.sketches)
    if best is None or structural_equal(best.mod, mod):
        return found
    return {ZERO_SEARCH: MeasureCandidate(best, infos), **found}


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
