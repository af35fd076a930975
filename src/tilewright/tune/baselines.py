"""Baselines: the schedule without a search and the program as it is, the first two candidates.

They are measured like all others, so that what a search ends with is never slower than either. The
program itself comes second: where its plain loops are clearly slower, they are not run again, and
those that would take seconds are not run at all. A task of an interrupted run of which nothing was
measured gets the schedule as its result; whoever presses Ctrl-C again does not wait for it.
"""

from __future__ import annotations

from tilewright import ir, records
from tilewright.database import Database
from tilewright.schedule import Schedule
from tilewright.tune.fallback import best_of_sketches, default_schedule
from tilewright.tune.measuring import Measuring
from tilewright.tune.task import TaskRecord

# Plain loops of more operations take seconds, and where there is a schedule no search ends there.
PLAIN_MOST_FLOP = 1e9


def baselines_of(task: TaskRecord) -> dict[str, records.MeasureCandidate]:
    """The candidates that come before those of the search, by name; none if it has begun.

    Spaces of the user's own have none: their searches stay inside of them.
    """
    space, mod = task.ctx.space_generator, task.mod
    if task.trials or space is None or not space.has_baselines:
        return {}
    infos, plain = records.args_info_of(mod), Schedule(mod)
    # A GPU runs nothing whose loops are not bound to threads.
    found = {records.PLAIN: records.MeasureCandidate(plain, infos)} if task.target.is_cpu else {}
    best = best_of_sketches(task.ctx, task.search.sketches)
    if best is None or ir.structural_equal(best.mod, mod):
        return found
    if task.flop > PLAIN_MOST_FLOP or task.starts_late:  # a model has little time for each task
        found = {}
    return {records.ZERO_SEARCH: records.MeasureCandidate(best, infos), **found}


def keep_without_search(task: TaskRecord, database: Database, measurer: Measuring) -> None:
    """Measure the schedule that needs no search, and make it a record."""
    sch = default_schedule(task.mod, task.target)
    candidate = records.MeasureCandidate(sch, records.args_info_of(sch.mod))
    measured = measurer.measure(task, [candidate], lambda *phase: None, is_quick=True)
    if measured.interrupt is not None:
        raise measured.interrupt
    workload, (result,) = database.commit_workload(task.mod), measured.results
    extra = {"run": task.run, "task": task.ctx.task_name, records.BASELINE: records.ZERO_SEARCH}
    database.commit_tuning_record(
        records.TuningRecord.of(candidate, workload, task.target, result, extra)
    )
