"""`AddToDatabase`: every measured candidate, the failed ones too, becomes a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.measure.interrupts import delayed_interrupts
from tilewright.records import BuilderResult, MeasureCandidate, RunnerResult, TuningRecord
from tilewright.tune.callbacks.base import MeasureCallback, measure_callbacks
from tilewright.tune.funnel import keep_funnel
from tilewright.tune.resume.saved_search import save_search


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
            TuningRecord.of(
                candidate,
                workload,
                task.ctx.target,
                result,
                task.extra_of(position, built, result),
            )
            for position, (candidate, built, result) in enumerate(
                zip(measure_candidates, builder_results, runner_results, strict=True)
            )
            if position not in task.round.reused
        ]
        with delayed_interrupts(), database.transaction():
            database.commit_tuning_records(records)
            if task.round.funnel is not None:
                keep_funnel(task.round.funnel, task, database)
            save_search(task, database)
