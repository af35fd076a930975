"""`UpdateCostModel`: the model learns from every round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.records import PLAIN, BuilderResult, MeasureCandidate, RunnerResult
from tilewright.tune.callbacks.base import MeasureCallback, measure_callbacks


@measure_callbacks.register("update-cost-model")
class UpdateCostModel(MeasureCallback):
    """Leaves out candidates that did not compile: their running time is not what was wrong.

    And the program as it is: plain loops say nothing of how good schedules differ.
    """

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        model = task_scheduler.cost_model
        if model is None:
            return
        task = task_scheduler.tasks[task_id]
        kept = [
            (candidate, result)
            for number, (candidate, built, result) in enumerate(
                zip(measure_candidates, builder_results, runner_results, strict=True)
            )
            if built.error_msg is None
            and (result.error_msg or sum(result.run_secs or ()) > 0)
            and PLAIN not in task.round.baselines[number : number + 1]
        ]
        if kept:
            model.update(task.ctx, [c for c, _ in kept], [r for _, r in kept])
