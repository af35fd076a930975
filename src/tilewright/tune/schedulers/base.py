"""What a task scheduler is: it decides which task gets the next round, and runs the rounds."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.cost_model.base import CostModel
from tilewright.database import Database
from tilewright.measure import Builder, Runner
from tilewright.records import BuilderResult, MeasureCandidate, RunnerResult
from tilewright.support.plugins import Family
from tilewright.tune.callbacks import MeasureCallback
from tilewright.tune.context import TuneContext
from tilewright.tune.events import (
    Event,
    Observer,
    PhaseChanged,
    RoundMeasured,
    TaskFinished,
    TuningFinished,
    TuningStarted,
)
from tilewright.tune.measuring import Measurer
from tilewright.tune.profiler import Profiler
from tilewright.tune.statistics import statistics_table
from tilewright.tune.task import TaskRecord


@dataclass(frozen=True)
class Limits:
    """When tuning ends."""

    max_trials_global: int
    max_trials_per_task: int
    num_trials_per_iter: int
    budget_secs: float | None = None
    plateau_trials: int | None = None  # a task without a gain for so long is done


@dataclass
class TaskScheduler(ABC):
    """Runs tasks in rounds until the limits are reached; subclasses choose the next task."""

    logger: logging.Logger = field(
        default_factory=lambda: logging.getLogger("tilewright.tune"), kw_only=True
    )
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True)
    observers: list[Observer] = field(default_factory=list, kw_only=True)
    tasks: list[TaskRecord] = field(default_factory=list, init=False)
    database: Database | None = field(default=None, init=False)
    cost_model: CostModel | None = field(default=None, init=False)
    measure_callbacks: list[MeasureCallback] = field(default_factory=list, init=False)

    @abstractmethod
    def next_task_id(self) -> int:
        """The task of the next round; -1 if none is left."""

    def tune(
        self,
        tasks: Sequence[TuneContext | TaskRecord],
        task_weights: Sequence[float],
        limits: Limits,
        builder: Builder,
        runner: Runner,
        measure_callbacks: Sequence[MeasureCallback],
        database: Database | None,
        cost_model: CostModel | None,
        check: bool = True,
    ) -> None:
        """Tune all tasks. Whatever was measured is in the database when this ends or is ended."""
        self.database, self.cost_model = database, cost_model
        self.measure_callbacks = list(measure_callbacks)
        self._limits = limits
        self._start = self.clock()
        self._measurer = Measurer(builder, runner, self.logger, check)
        self.tasks = [
            task if isinstance(task, TaskRecord) else TaskRecord(task, weight)
            for task, weight in zip(tasks, task_weights, strict=True)
        ]
        reason = "interrupted"
        try:
            self._begin()
            reason = self._run_rounds()
        finally:
            for task in self.tasks:
                if task.ctx.search_strategy is not None:
                    task.ctx.search_strategy.post_tuning()
            self._tell(TuningFinished(reason, self._elapsed()))

    # --- the loop -------------------------------------------------------------------------------

    def _begin(self) -> None:
        for number, task in enumerate(self.tasks):
            self.logger.info('Initializing Task #%d: "%s"', number, task.ctx.task_name)
            with Profiler.timeit("InitializeTask"):
                self._begin_task(task)
        limits = self._limits
        self._tell(TuningStarted(self.tasks, limits.max_trials_global, limits.budget_secs))

    def _begin_task(self, task: TaskRecord) -> None:
        context, limits = task.ctx, self._limits
        context.initialize()
        if self.database is not None:
            task.learn_known(self.database)
        task.sketches = context.generate_design_space()
        context.logger.info("Total %d design space(s) generated", len(task.sketches))
        for number, sketch in enumerate(task.sketches):
            context.logger.info("Design space #%d:\n%s\n%s", number, sketch.mod, sketch.trace)
        context.pre_tuning(
            limits.max_trials_per_task,
            limits.num_trials_per_iter,
            task.sketches,
            self.database,
            self.cost_model,
        )

    def _run_rounds(self) -> str:
        limits = self._limits
        while sum(task.trials for task in self.tasks) < limits.max_trials_global:
            if limits.budget_secs is not None and self._elapsed() >= limits.budget_secs:
                return "budget"
            task_id = self.next_task_id()
            if task_id < 0:
                break
            self._round(task_id)
        return "done"

    def _round(self, task_id: int) -> None:
        task = self.tasks[task_id]
        if task.trials >= self._limits.max_trials_per_task:
            self.terminate_task(task_id, "all its trials are done")
            return
        self._tell(PhaseChanged(task_id, "search", 0))
        candidates = task.ctx.generate_measure_candidates()
        if candidates is None:
            self.terminate_task(task_id, "the search has no more candidates")
            return
        self.logger.info('TaskScheduler picks Task #%d: "%s"', task_id, task.ctx.task_name)
        task.predictions = self._predict(task, candidates)
        built, results = self._measure(task_id, candidates)
        task.elapsed = self._elapsed()
        task.ctx.notify_runner_results(candidates, results)
        self._call_back(task_id, candidates, built, results)
        self._log_trials(task_id, candidates, results)
        task.add_round(candidates, results)
        self.logger.info('[Updated] Task #%d: "%s"', task_id, task.ctx.task_name)
        self.logger.info("\n%s", statistics_table(self.tasks))
        self._tell(RoundMeasured(task_id, len(candidates), self._elapsed()))
        plateau = self._limits.plateau_trials
        if plateau is not None and task.trials_since_gain() >= plateau:
            self.terminate_task(task_id, f"no gain in the last {plateau} trials")

    def _predict(self, task: TaskRecord, candidates: Sequence[MeasureCandidate]) -> Sequence[float]:
        if self.cost_model is None or not candidates:
            return ()
        try:
            return [float(score) for score in self.cost_model.predict(task.ctx, candidates)]
        except Exception as error:  # a model of the user's own
            self.logger.warning("the cost model failed to predict: %s", error)
            return ()

    def _measure(
        self, task_id: int, candidates: Sequence[MeasureCandidate]
    ) -> tuple[list[BuilderResult], list[RunnerResult]]:
        self.logger.info("Sending %d sample(s) to builder", len(candidates))
        self._tell(PhaseChanged(task_id, "build", len(candidates)))
        return self._measurer.measure(self.tasks[task_id], candidates)

    def _call_back(
        self,
        task_id: int,
        candidates: Sequence[MeasureCandidate],
        built: Sequence[BuilderResult],
        results: Sequence[RunnerResult],
    ) -> None:
        for callback in self.measure_callbacks:
            name = type(callback).__name__
            with Profiler.timeit(f"MeasureCallback/{name}"):
                try:
                    callback.apply(self, task_id, candidates, built, results)
                except Exception:
                    self.logger.exception("measure callback %s failed", name)

    def terminate_task(self, task_id: int, reason: str) -> None:
        """A task gets no more trials."""
        task = self.tasks[task_id]
        if task.is_terminated:
            return
        task.is_terminated = True
        left = sum(not other.is_terminated for other in self.tasks)
        self.logger.info("Task #%d has finished (%s). Remaining task(s): %d", task_id, reason, left)
        self._tell(TaskFinished(task_id, reason))

    # --- telling ----------------------------------------------------------------------------------

    def _log_trials(
        self, task_id: int, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        task = self.tasks[task_id]
        head = f"[Task #{task_id}: {task.ctx.task_name}] Trial #"
        best = task.gflops or 0.0
        for number, (candidate, result) in enumerate(
            zip(candidates, results, strict=True), task.trials + 1
        ):
            if result.run_secs:
                secs = sorted(result.run_secs)[len(result.run_secs) // 2]
                speed = task.flop / secs / 1e9
                best = max(best, speed)
                line = f"GFLOPs: {speed:.4f}. Time: {secs * 1e6:.4f} us. Best GFLOPs: {best:.4f}"
                task.ctx.logger.info("%s%d: %s\n%s", head, number, line, candidate.sch.trace)
            else:
                what = "building" if result.failure and "build" in result.failure else "running"
                task.ctx.logger.info(
                    "%s%d: Error in %s:\n%s\n%s\n%s",
                    head, number, what, result.error_msg, candidate.sch.mod, candidate.sch.trace,
                )  # fmt: skip

    def _elapsed(self) -> float:
        return self.clock() - self._start

    def _tell(self, event: Event) -> None:
        for observer in self.observers:
            try:
                observer(event)
            except Exception as error:
                self.logger.warning("an observer of the tuning failed: %s", error)


task_schedulers: Family[Any] = Family("task scheduler", "tilewright.task_scheduler")
