"""Measure callbacks: they see every round after it was measured."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.measure.interrupts import delayed_interrupts
from tilewright.records import PLAIN, BuilderResult, MeasureCandidate, RunnerResult, TuningRecord
from tilewright.support.plugins import Family
from tilewright.tune.resume.saved_search import save_search
from tilewright.tune.task import keep_funnel

if TYPE_CHECKING:
    from tilewright.tune.policy import TaskScheduler

measure_callbacks: Family[MeasureCallback] = Family(
    "measure callback", "tilewright.measure_callback"
)
# The callbacks of a run that names none, in this order.
DEFAULT = ("add-to-database", "remove-build-artifact", "update-cost-model")


class MeasureCallback(ABC):
    """Called with the candidates of a round and what became of them."""

    @abstractmethod
    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Do something with a round."""

    @staticmethod
    def create(kind: str = "default") -> list[MeasureCallback]:
        """The callbacks of that name: the default ones, or a single one."""
        names = DEFAULT if kind == "default" else (kind,)
        return [measure_callbacks.create(name) for name in names]


@measure_callbacks.register("add-to-database")
class AddToDatabase(MeasureCallback):
    """Every measured candidate, the failed ones too, becomes a record.

    Commits a round in one transaction, and with it how far the search is.
    """

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        database = task_scheduler.database
        if database is None:
            return
        task = task_scheduler.tasks[task_id]
        workload, target = database.commit_workload(task.mod), task.target
        rows = enumerate(zip(measure_candidates, builder_results, runner_results, strict=True))
        records = [
            TuningRecord.of(candidate, workload, target, result, task.extra_of(n, built, result))
            for n, (candidate, built, result) in rows
            if n not in task.round.reused
        ]

        def keep() -> None:
            database.commit_tuning_records(records)
            if task.round.funnel is not None:
                keep_funnel(task.round.funnel, task, database)
            save_search(task, database)

        with delayed_interrupts():
            database.atomically(keep)
        if task.records is not None:
            task.records.add(records)


@measure_callbacks.register("remove-build-artifact")
class RemoveBuildArtifact(MeasureCallback):
    """Removes the folder of every artefact, if it is one, once it was measured."""

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        for result in builder_results:
            if result.artifact_path is not None:
                remove_build_dir(result.artifact_path)


@measure_callbacks.register("update-cost-model")
class UpdateCostModel(MeasureCallback):
    """The model learns from every round.

    Candidates that did not compile are left out: their running time is not what was wrong. And the
    program as it is: plain loops say nothing of how good schedules differ.
    """

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        model, task = task_scheduler.cost_model, task_scheduler.tasks[task_id]
        rows = enumerate(zip(measure_candidates, builder_results, runner_results, strict=True))
        kept = [
            (candidate, result)
            for n, (candidate, built, result) in rows
            if built.error_msg is None
            and (result.error_msg or sum(result.run_secs or ()) > 0)
            and PLAIN not in task.round.baselines[n : n + 1]
        ]
        if kept and model is not None:
            model.update(task.ctx, [c for c, _ in kept], [r for _, r in kept])


def default_callbacks() -> list[MeasureCallback]:
    """The callbacks of a run that names none."""
    return MeasureCallback.create("default")


def remove_build_dir(artifact_path: str) -> None:
    """Remove the folder of an artefact, if it is a file."""
    folder = Path(artifact_path).parent
    try:
        os.unlink(artifact_path)
    except OSError:
        return
    try:
        os.rmdir(folder)  # mostly it was alone there, and a search has thousands of them
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
