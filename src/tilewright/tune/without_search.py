"""What an interrupted run leaves for tasks of which nothing was measured: no task has no result.

The schedule is calculated and measured, and checked if that is quick. Whoever presses Ctrl-C again
does not wait for it.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.database import Database
from tilewright.records import (
    BASELINE,
    CANDIDATE_HASH,
    FAILED_RUN_SECS,
    ZERO_SEARCH,
    MeasureCandidate,
    TuningRecord,
    args_info_of,
    candidate_hash,
)
from tilewright.tune.fallback import default_schedule
from tilewright.tune.finals import QUICKLY_CHECKED_FLOP
from tilewright.tune.measuring import Measurer, target_of
from tilewright.tune.task import TaskRecord
from tilewright.tune.traces import trace_of


def has_result(task: TaskRecord, database: Database) -> bool:
    """Is there a schedule of the task that works on its target?"""
    assert task.ctx.mod is not None
    found = database.query_tuning_record(task.ctx.mod, target_of(task), task.ctx.task_name)
    return found is not None


def keep_without_search(task: TaskRecord, database: Database, measurer: Measurer) -> None:
    """Measure the schedule that needs no search, and make it a record."""
    assert task.ctx.mod is not None
    sch = default_schedule(task.ctx.mod, target_of(task))
    candidate = MeasureCandidate(sch, args_info_of(sch.mod))
    is_quick = measurer.check and task.flop <= QUICKLY_CHECKED_FLOP
    measured = replace(measurer, check=is_quick).measure(task, [candidate], lambda *phase: None)
    if measured.interrupt is not None:
        raise measured.interrupt
    (result,) = measured.results
    extra = {
        CANDIDATE_HASH: candidate_hash(candidate),
        "protocol": result.protocol,
        "run": task.run,
        "task": task.ctx.task_name,
        "checked": result.checked,
        BASELINE: ZERO_SEARCH,
    }
    record = TuningRecord(
        trace_of(candidate),
        database.commit_workload(task.ctx.mod),
        result.run_secs or (FAILED_RUN_SECS,),
        target_of(task),
        candidate.args_info,
        failure=result.failure,
        error_msg=result.error_msg,
        extra=extra,
    )
    database.commit_tuning_record(record)
