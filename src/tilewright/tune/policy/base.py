"""What a task scheduler is: it decides which task gets the next round, and runs the rounds."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tilewright.cost_model.base import CostModel
from tilewright.database import Database
from tilewright.errors import DatabaseError, MachineError, TilewrightError, TuneError
from tilewright.measure import Builder, Runner, builders, runners
from tilewright.measure.interrupts import lasting_interrupts
from tilewright.records import BuilderResult, MeasureCandidate, RunnerResult
from tilewright.support.machine_faults import as_machine_faults
from tilewright.support.member_failures import MemberFailures
from tilewright.support.plugins import Family
from tilewright.tune.baselines import baselines_of
from tilewright.tune.budget import Budget
from tilewright.tune.callbacks import AddToDatabase, MeasureCallback, UpdateCostModel
from tilewright.tune.context import TuneContext
from tilewright.tune.events import (
    Event,
    MemberFailed,
    Observer,
    PhaseChanged,
    RoundMeasured,
    TaskFinished,
    TuningFinished,
    TuningStarted,
)
from tilewright.tune.finals import hold_final
from tilewright.tune.funnel import funnel_of
from tilewright.tune.limits import Limits
from tilewright.tune.measuring import Measured, Measurer, make_member
from tilewright.tune.policy.tvm_names import TVMNames
from tilewright.tune.profiler import Profiler
from tilewright.tune.resume.retrain import repeat_lessons
from tilewright.tune.resume.saved_search import load_search, save_search
from tilewright.tune.resume.start_search import begin_search
from tilewright.tune.runs import FAILED, FINISHED, INTERRUPTED, begin_run
from tilewright.tune.task import TaskRecord
from tilewright.tune.trial_log import log_trials
from tilewright.tune.without_search import has_result, keep_without_search

# A strategy may propose nothing for a while; for so long it is asked again.
_MOST_EMPTY_ROUNDS = 100


@dataclass
class TaskScheduler(TVMNames, ABC):
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

    @staticmethod
    def create(kind: str = "gradient", *args: Any, **options: Any) -> TaskScheduler:
        """A scheduler by name."""
        made: TaskScheduler = task_schedulers.create(kind, *args, **options)
        return made

    def tune(
        self,
        tasks: Sequence[TuneContext | TaskRecord],
        task_weights: Sequence[float],
        max_trials_global: int,
        max_trials_per_task: int | None = None,
        num_trials_per_iter: int = 64,
        builder: Builder | str = "local",
        runner: Runner | str = "local",
        measure_callbacks: Sequence[MeasureCallback] = (),
        database: Database | None = None,
        cost_model: CostModel | None = None,
        *,
        budget_secs: float | None = None,
        plateau_trials: int | None = None,
        check: bool = True,
        keep_going: bool = False,
    ) -> None:
        """Tune all tasks. Whatever was measured is in the database when this ends or is ended.

        With `budget_secs` it ends after that time, with `plateau_trials` a task ends that found
        nothing better for so long. `check=False`: results are not compared with those of the
        untransformed programs. An exception in a member of the user's own ends the tuning unless it
        is to keep going.
        """
        require_tasks(tasks, task_weights)
        limits = Limits(
            max_trials_global,
            max_trials_per_task or max_trials_global,
            num_trials_per_iter,
            budget_secs,
            plateau_trials,
        )
        with ExitStack() as closing:
            self._failures = MemberFailures(keep_going=keep_going, show=self._show)
            self._measurer = Measurer(
                make_member(builder, builders, closing),
                make_member(runner, runners, closing),
                self.logger,
                check,
                self._failures,
            )
            self._tune(tasks, task_weights, limits, measure_callbacks, database, cost_model)

    def _tune(
        self,
        tasks: Sequence[TuneContext | TaskRecord],
        task_weights: Sequence[float],
        limits: Limits,
        measure_callbacks: Sequence[MeasureCallback],
        database: Database | None,
        cost_model: CostModel | None,
    ) -> None:
        self.database, self.cost_model = database, cost_model
        self.measure_callbacks = list(measure_callbacks)
        self._limits = limits
        self._budget = Budget(limits.budget_secs, self.clock, len(tasks))
        self._earlier_secs = 0.0
        self._error: Exception | None = None
        self._empty_rounds = 0
        self.tasks = [
            task if isinstance(task, TaskRecord) else TaskRecord(task, weight)
            for task, weight in zip(tasks, task_weights, strict=True)
        ]
        for task in self.tasks:
            if task.ctx.target is None:
                name = task.ctx.task_name
                raise TuneError(f"task {name!r} has no target; give TuneContext one")
        self._work()

    def _work(self) -> None:
        run: int | None = None
        status, reason = FAILED, "failed"
        try:
            with as_machine_faults():
                self._resume()
                if self.database is not None:
                    run = self._begin_run(self.database)
                with lasting_interrupts() as check_interrupt:
                    self._begin()
                    ended = self._run_rounds(check_interrupt)
                self._end_tasks(ended)
            status, reason = FINISHED, ended
        except KeyboardInterrupt:
            status = reason = INTERRUPTED
            self._keep_results()
            raise
        except MachineError:
            with suppress(TuneError):  # as far as the machine lets us
                self._keep_results()
            raise
        except Exception as error:
            if not isinstance(error, TilewrightError):
                self._failures.take("code of your own", error)
            raise
        finally:
            self._post_tuning()
            if self.database is not None and run is not None:
                # Why a run ended is more important than that this cannot be noted.
                with suppress(*([] if status is FINISHED else [DatabaseError])):
                    self.database.history.finish_run(run, status)
            self._tell(TuningFinished(reason, self._budget.elapsed))

    # --- the beginning --------------------------------------------------------------------------

    def _resume(self) -> None:
        """Let tasks go on from where earlier calls stopped; nothing is searched or built yet."""
        for number, task in enumerate(self.tasks):
            self.logger.info('Initializing Task #%d: "%s"', number, task.ctx.task_name)
            task.ctx.failures = self._failures
            task.ctx.initialize()
            if self.database is None:
                continue
            task.learn_known(self.database)
            if load_search(task, self.database):
                self.logger.info(
                    "Task #%d goes on from an earlier run: %d trial(s) are known already",
                    number,
                    task.trials,
                )
        self._earlier_secs = max((task.elapsed for task in self.tasks), default=0.0)

    def _begin_run(self, database: Database) -> int:
        limits = self._limits
        options = {"max_trials": limits.max_trials_global, "budget_secs": limits.budget_secs}
        return begin_run(self.tasks, database, options)

    def _begin(self) -> None:
        """Make the search spaces of the tasks that need one."""
        ends = [self._nothing_to_do(task) for task in self.tasks]
        if not all(ends):
            self._measurer.warm_up()
        for number, task in enumerate(self.tasks):
            if not ends[number]:
                with Profiler.timeit("InitializeTask"):
                    ends[number] = self._failure_of(
                        number, partial(self._begin_search, task), "search space or strategy"
                    )
        if self.cost_model is not None and self.database is not None:
            alive = [task for task in self.tasks if task.is_searching]
            with Profiler.timeit("MeasureCallback/UpdateCostModel"):
                repeat_lessons(alive, self.database, self.cost_model, self._model_failed)
        limits = self._limits
        self._tell(TuningStarted(self.tasks, limits.max_trials_global, limits.budget_secs))
        for number, end in enumerate(ends):
            if end:
                self.terminate_task(number, end)

    def _nothing_to_do(self, task: TaskRecord) -> str:
        """Why a task needs no search at all: everything was done by earlier calls."""
        if task.trials and self._trials_left(task) <= 0:
            return f"all {task.trials} trials are known already, nothing is measured again"
        if task.finished:
            return f"known already: {task.finished}"
        return self._plateau(task)

    def _begin_search(self, task: TaskRecord) -> None:
        begin_search(task, self._limits, self.database, self.cost_model, self.logger)

    # --- the rounds -----------------------------------------------------------------------------

    def _run_rounds(self, check_interrupt: Callable[[], None]) -> str:
        while sum(task.trials for task in self.tasks) < self._limits.max_trials_global:
            check_interrupt()
            if not self._budget.allows_round():
                return "budget"
            task_id = self.next_task_id()
            if task_id < 0:
                break
            if self._trials_left(self.tasks[task_id]) <= 0:
                self.terminate_task(task_id, "all its trials are done")
            elif not self._round(task_id):
                return "budget"
        return "done"

    def _round(self, task_id: int) -> bool:
        """Search, measure, learn; False if there was no time to measure everything."""
        task = self.tasks[task_id]
        baselines = baselines_of(task)
        candidates = list(baselines.values()) or self._search(task_id)
        if not candidates:
            return True
        self.logger.info('TaskScheduler picks Task #%d: "%s"', task_id, task.ctx.task_name)
        task.begin_round(self._predictions(task, candidates), tuple(baselines))
        allowed = candidates[: task.begun + self._trials_left(task)]
        some = allowed[: task.begun + self._budget.fitting(len(allowed) - task.begun)]
        measured = self._measure(task_id, some)
        self._take(task_id, candidates, measured)
        self.join_running_task(task_id)
        if measured.interrupt is not None:
            raise measured.interrupt
        plateau = self._plateau(task)
        if plateau:
            self.terminate_task(task_id, plateau)
        return len(measured.results) == len(allowed)

    def _search(self, task_id: int) -> list[MeasureCandidate]:
        """What the strategy proposes; nothing: look at another task first."""
        self._tell(PhaseChanged(task_id, "search", 0))
        task, start = self.tasks[task_id], self.clock()
        found: list[MeasureCandidate] | None = []

        def ask() -> None:
            nonlocal found
            found = task.ctx.generate_measure_candidates()

        with Profiler.timeit("Search"):
            failure = self._failure_of(task_id, ask)
        self._budget.searched(self.clock() - start)
        self._empty_rounds = 0 if found else self._empty_rounds + 1
        if failure:
            self.terminate_task(task_id, failure)
        elif found is None or self._empty_rounds >= _MOST_EMPTY_ROUNDS:
            task.finished = "the search has no more candidates"
            self.terminate_task(task_id, task.finished)
        return found or []

    def _predictions(
        self, task: TaskRecord, candidates: Sequence[MeasureCandidate]
    ) -> Sequence[float | None]:
        """What the model thinks of candidates; most strategies have asked it already."""
        scored = getattr(task.ctx.search_strategy, "predictions", None)
        if scored is not None and all(score is not None for score in scored):
            return list(scored)
        if self.cost_model is None:
            return ()
        try:
            return [float(score) for score in self.cost_model.predict(task.ctx, candidates)]
        except Exception as error:
            self._model_failed(error)
            return ()

    def _measure(self, task_id: int, candidates: Sequence[MeasureCandidate]) -> Measured:
        def tell(phase: str, count: int) -> None:
            self.logger.info(
                "Sending %d sample(s) to %s", count, {"build": "builder", "run": "runner"}[phase]
            )
            self._tell(PhaseChanged(task_id, phase, count))

        task, start = self.tasks[task_id], self.clock()
        measured = self._measurer.measure(task, candidates, tell, self._budget.has_time)
        fresh = len(measured.results) - len(task.reused_now)
        self._budget.measured(fresh, self.clock() - start)
        return measured

    def _take(
        self, task_id: int, candidates: Sequence[MeasureCandidate], measured: Measured
    ) -> None:
        """Learn from what was measured, and keep it."""
        task, built, results = self.tasks[task_id], measured.built, measured.results
        some = list(candidates[: len(results)])
        task.elapsed = self._earlier_secs + self._budget.elapsed
        log_trials(task_id, task, some, built, results)
        new = len(results) - task.begun
        task.add_trials(some, results)
        task.runner_results = results
        task.funnel, failure = None, ""
        if task.baselines:
            failure = self._failure_of(task_id, lambda: task.ctx.notify_known(some))
            task.end_round()
        elif len(results) == len(candidates):
            failure = self._failure_of(
                task_id, lambda: task.ctx.notify_runner_results(some, results)
            )
            task.end_round()
            task.funnel = funnel_of(task, built, results)
        self._call_back(task_id, some, built, results)
        self.logger.info('[Updated] Task #%d: "%s"', task_id, task.ctx.task_name)
        quality = getattr(self.cost_model, "last_quality", None)
        if quality is not None:
            self.logger.info("Cost model: %s", quality)
        if task.funnel is not None:
            self.logger.info("Funnel: %s", task.funnel)
        self.print_tuning_statistics()
        self._tell(RoundMeasured(task_id, new, self._budget.elapsed, quality, task.funnel))
        if failure:
            self.terminate_task(task_id, failure)

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
                except Exception as error:
                    if isinstance(callback, AddToDatabase):
                        raise  # measuring on would be in vain
                    if isinstance(callback, UpdateCostModel):
                        self._model_failed(error)
                    else:
                        self._failed(f"measure callback {name}", error, callback)

    def _trials_left(self, task: TaskRecord) -> int:
        limits = self._limits
        total = sum(each.trials for each in self.tasks)
        return min(limits.max_trials_per_task - task.trials, limits.max_trials_global - total)

    def _plateau(self, task: TaskRecord) -> str:
        """Why a task is done, if it stopped improving."""
        most = self._limits.plateau_trials
        if most is None or task.trials_since_gain() < most:
            return ""
        return f"no gain in the last {most} trials"

    # --- the end --------------------------------------------------------------------------------

    def terminate_task(self, task_id: int, reason: str = "its scheduler ended it") -> None:
        """A task gets no more trials, the others go on."""
        if not self.tasks[task_id].is_terminated:
            self._terminate(task_id, reason)
            self._tell(TaskFinished(task_id, reason))

    def _terminate(self, task_id: int, reason: str) -> None:
        """The best candidates of a task are measured against each other; then it is finished."""
        self.tasks[task_id].is_terminated = True
        if self._keeps_records():
            self._settle(task_id)
        left = sum(not other.is_terminated for other in self.tasks)
        self.logger.info("Task #%d has finished (%s). Remaining task(s): %d", task_id, reason, left)

    def _keeps_records(self) -> bool:
        keeping = any(isinstance(each, AddToDatabase) for each in self.measure_callbacks)
        return self.database is not None and keeping

    def _settle(self, task_id: int) -> None:
        task, database = self.tasks[task_id], self.database
        assert database is not None
        if task.settled != task.trials:
            self._tell(PhaseChanged(task_id, "final", 0))
            with Profiler.timeit("Final"):
                ranked = hold_final(task, database, self._measurer, self._budget.final_secs())
            for place, contender in enumerate(ranked, 1):
                self.logger.info("Final of Task #%d, place %d: %s", task_id, place, contender)
            task.settled = task.trials
        save_search(task, database)

    def _end_tasks(self, reason: str) -> None:
        why = "the time is used up" if reason == "budget" else "all trials are done"
        for number, task in enumerate(self.tasks):
            if not task.is_terminated:
                self._terminate(number, why)
        if self._error is not None and not any(task.trials for task in self.tasks):
            raise self._error

    def _keep_results(self) -> None:
        """Every task has a result: at least the schedule that needs no search."""
        database = self.database
        if database is None or not self._keeps_records():
            return
        for number, task in enumerate(self.tasks):
            if not has_result(task, database):
                self._tell(PhaseChanged(number, "zero-search", 1))
                keep_without_search(task, database, self._measurer)

    def _post_tuning(self) -> None:
        for task in self.tasks:
            if task.is_searching and task.ctx.search_strategy is not None:
                task.is_searching = False
                task.ctx.search_strategy.post_tuning()

    # --- members that fail ----------------------------------------------------------------------

    def _failure_of(
        self, task_id: int, step: Callable[[], object], what: str = "search strategy"
    ) -> str:
        """Let a strategy do something; if it fails, its task ends for this reason, no other.

        One of the user's own ends the tuning unless it is to keep going.
        """
        context = self.tasks[task_id].ctx
        try:
            step()
        except Exception as error:
            who = f"the {what} of task {context.task_name!r}"
            self._failures.take(who, error, context.space_generator, context.search_strategy)
            self.logger.exception("the search of Task #%d failed", task_id)
            self._error = self._error or error
            return f"its search failed: {type(error).__name__}: {error}"
        return ""

    def _model_failed(self, error: Exception) -> None:
        self._failed(f"cost model {type(self.cost_model).__name__}", error, self.cost_model)

    def _failed(self, who: str, error: Exception, *members: object) -> None:
        if not self._failures.take(who, error, *members):
            self.logger.warning("%s failed: %s: %s", who, type(error).__name__, error)

    def _show(self, failure: str) -> None:
        self.logger.error("%s", failure)
        self._tell(MemberFailed(failure))

    def _tell(self, event: Event) -> None:
        for observer in self.observers:
            try:
                observer(event)
            except Exception as error:
                self._failed("an observer of the tuning", error)


def require_tasks(tasks: Sequence[object], weights: Sequence[float]) -> None:
    """There must be a task, and a weight for each."""
    if not tasks:
        raise TuneError("there are no tasks to tune; give at least one")
    if len(tasks) != len(weights):
        raise TuneError(f"{len(tasks)} tasks have {len(weights)} weights; give one for each")


task_schedulers: Family[Any] = Family("task scheduler", "tilewright.task_scheduler")
