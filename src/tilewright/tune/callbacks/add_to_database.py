"""`AddToDatabase`: every measured candidate, the failed ones too, becomes a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.records import (
    FAILED_RUN_SECS,
    BuilderResult,
    MeasureCandidate,
    RunnerResult,
    TuningRecord,
)
from tilewright.tune.callbacks.base import MeasureCallback, measure_callbacks
from tilewright.tune.task import trace_of


@measure_callbacks.register("add-to-database")
class AddToDatabase(MeasureCallback):
    """Commits a round in one transaction."""

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
        database.commit_tuning_records(
            TuningRecord(
                trace=trace_of(candidate),
                workload=workload,
                run_secs=result.run_secs or (FAILED_RUN_SECS,),
                target=task.ctx.target,
                args_info=candidate.args_info,
                failure=result.failure,
                error_msg=result.error_msg,
                extra=task.extra_of(position, result),
            )
            for position, (candidate, result) in enumerate(
                zip(measure_candidates, runner_results, strict=True)
            )
            if position not in task.reused_now
        )
