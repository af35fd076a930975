"""`AddToDatabase`: every measured candidate, the failed ones too, becomes a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.measure.interrupts import delayed_interrupts
from tilewright.records import (
    FAILED_RUN_SECS,
    BuilderResult,
    MeasureCandidate,
    RunnerResult,
    TuningRecord,
)
from tilewright.tune.callbacks.base import MeasureCallback, measure_callbacks
from tilewright.tune.funnel import keep_funnel
from tilewright.tune.resume.saved_search import save_search
from tilewright.tune.traces import trace_of


@measure_callbacks.register("add-to-database")
class AddToDatabase(MeasureCallback):
    """Commits a round in one transaction, and with it how far the search is."""

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        database = task_scheduler.database
        if database is None:
            return
        task = task_scheduler.tasks[task_id]
        workload = database.commit_workload(task.ctx.mod)
        records = [
            TuningRecord(
                trace=trace_of(candidate),
                workload=workload,
                run_secs=result.run_secs or (FAILED_RUN_SECS,),
                target=task.ctx.target,
                args_info=candidate.args_info,
                failure=result.failure,
                error_msg=result.error_msg,
                extra=task.extra_of(position, candidate, built, result),
            )
            for position, (candidate, built, result) in enumerate(
                zip(measure_candidates, builder_results, runner_results, strict=True)
            )
            if position not in task.reused_now
        ]
        with delayed_interrupts(), database.transaction():
            database.commit_tuning_records(records)
            if task.funnel is not None:
                keep_funnel(task.funnel, task, database)
            save_search(task, database)
