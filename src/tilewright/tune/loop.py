"""`TuningLoop`: from where earlier calls stopped, round by round, to the finals of all tasks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from tilewright.database import Database
from tilewright.errors import DatabaseError, MachineError, TilewrightError, TuneError
from tilewright.measure.interrupts import lasting_interrupts
from tilewright.support.machine_faults import as_machine_faults
from tilewright.tune.baselines import keep_without_search
from tilewright.tune.events import PhaseChanged, TaskFinished, TuningFinished, TuningStarted
from tilewright.tune.finals import hold_final
from tilewright.tune.profiler import Profiler
from tilewright.tune.resume.saved_search import load_search, save_search
from tilewright.tune.resume.start_search import retrain, start_search
from tilewright.tune.round import run_round
from tilewright.tune.session import TuningSession
from tilewright.tune.task import TaskRecord

FINISHED, INTERRUPTED, FAILED = "finished", "interrupted", "failed"  # in the history


class TuningLoop(TuningSession):
    """Tunes the tasks of a policy. Whatever was measured is kept when it ends or is ended."""

    def run(self) -> None:
        """Tune until a limit is reached."""
        database, run = self.policy.database, None
        status, reason = FAILED, "failed"
        try:
            with as_machine_faults():
                self._resume()
                if database is not None:
                    run = self._begin_run(database)
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
                self.failures.take("code of your own", error)
            raise
        finally:
            self._post_tuning()
            if database is not None and run is not None:
                # Why a run ended is more important than that this cannot be noted.
                with suppress(*([] if status is FINISHED else [DatabaseError])):
                    database.history.finish_run(run, status)
            self.tell(TuningFinished(reason, self.budget.elapsed))

    # --- the beginning --------------------------------------------------------------------------

    def _resume(self) -> None:
        """Let tasks go on from where earlier calls stopped; nothing is searched or built yet."""
        logger, database = self.logger, self.policy.database
        for number, task in enumerate(self.tasks):
            logger.info('Initializing Task #%d: "%s"', number, task.ctx.task_name)
            task.ctx.report_to(self.failures)
            if database is not None and load_search(task, database):
                logger.info(
                    "Task #%d goes on from an earlier run: %d trial(s) are known already",
                    number,
                    task.trials,
                )
        self.earlier_secs = max((task.elapsed for task in self.tasks), default=0.0)

    def _begin_run(self, database: Database) -> int:
        """The number of the run in the history; a run that is resumed keeps its own."""
        earlier = {task.run for task in self.tasks}
        (run,) = earlier if len(earlier) == 1 else (None,)
        if run is None or not database.history.resume_run(run):
            first, options = self.tasks[0], self.options
            run = database.history.begin_run(
                ", ".join(task.ctx.task_name for task in self.tasks),
                target=str(first.target),
                seed=first.seed if first.asked_seed is None else first.asked_seed,
                options={"max_trials": options.trials, "budget_secs": options.budget_secs},
            )
        for task in self.tasks:
            task.run = run
        return run

    def _begin(self) -> None:
        """Make the search spaces of the tasks that need one."""
        ends = [self._nothing_to_do(task) for task in self.tasks]
        if not all(ends):
            self.measurer.warm_up()
        for number, task in enumerate(self.tasks):
            if not ends[number] and not task.starts_late:
                ends[number] = self._start(number)
        self._retrain([task for task in self.tasks if task.search.is_running])
        self.tell(TuningStarted(self.tasks, self.options.trials, self.options.budget_secs))
        for number, end in enumerate(ends):
            if end:
                self.end_task(number, end)

    def _start(self, task_id: int) -> str:
        """Make the search space of a task; why it ends if that fails."""
        start = partial(start_search, self.tasks[task_id], self)
        with Profiler.timeit("InitializeTask"):
            failure = self.search_failure(task_id, start, "search space or strategy")
        self._note_finals()
        return failure

    def _start_late(self, task_id: int) -> str:
        """Start a task whose turn it is; why it ends if that fails."""
        task = self.tasks[task_id]
        if not task.starts_late or task.search.is_running:
            return ""
        self.tell(PhaseChanged(task_id, "search", 0))
        failure = self._start(task_id)
        self._retrain([task])
        return failure

    def _retrain(self, tasks: list[TaskRecord]) -> None:
        model = self.policy.cost_model
        if model is not None:
            with Profiler.timeit("MeasureCallback/UpdateCostModel"):
                retrain(model, tasks, self.model_failed)

    def _note_finals(self) -> None:
        """Keep time for the finals of tasks that have begun."""
        waiting = [t for t in self.tasks if not t.is_terminated]
        running = [t for t in waiting if t.search.is_running or not t.starts_late]
        self.budget.tasks = max(1, len(running))

    def _nothing_to_do(self, task: TaskRecord) -> str:
        """Why a task needs no search at all: everything was done by earlier calls."""
        if task.trials and self.trials_left(task) <= 0:
            return f"all {task.trials} trials are known already, nothing is measured again"
        if task.search.finished:
            return f"known already: {task.search.finished}"
        return self.plateau(task)

    # --- the rounds -----------------------------------------------------------------------------

    def _run_rounds(self, check_interrupt: Callable[[], None]) -> str:
        while sum(task.trials for task in self.tasks) < self.options.trials:
            check_interrupt()
            if not self.budget.allows_round():
                return "budget"
            task_id = self.policy.next_task_id()
            if task_id < 0:
                break
            if self.trials_left(self.tasks[task_id]) <= 0:
                self.end_task(task_id, "all its trials are done")
                continue
            failure = self._start_late(task_id)
            if failure:
                self.end_task(task_id, failure)
                continue
            end = run_round(self, task_id)
            if end.task_ends:
                self.end_task(task_id, end.task_ends)
            if end.out_of_time:
                return "budget"
        return "done"

    # --- the end --------------------------------------------------------------------------------

    def end_task(self, task_id: int, reason: str) -> None:
        """Give a task no more trials; the others go on."""
        if not self.tasks[task_id].is_terminated:
            self._finish(task_id, reason)
            self.tell(TaskFinished(task_id, reason))

    def _finish(self, task_id: int, reason: str) -> None:
        """Measure the best candidates of a task against each other; then it is finished."""
        task = self.tasks[task_id]
        task.is_terminated = True
        if self.kept_in is not None and (task.search.is_running or not task.starts_late):
            self._hold_final(task_id, self.kept_in)
        self._note_finals()
        left = sum(not task.is_terminated for task in self.tasks)
        self.logger.info("Task #%d has finished (%s). Remaining task(s): %d", task_id, reason, left)

    def _hold_final(self, task_id: int, database: Database) -> None:
        task = self.tasks[task_id]
        # A model has a final of its own, which needs its time, too.
        is_too_late = task.starts_late and self.budget.is_over
        if task.counts.rematched_at != task.trials and not is_too_late:
            self.tell(PhaseChanged(task_id, "final", 0))
            start = self.policy.clock()
            with Profiler.timeit("Final"):
                ranked = hold_final(task, self.measurer, self.budget.final_secs())
            self.budget.held_final(self.policy.clock() - start)
            for place, contender in enumerate(ranked, 1):
                self.logger.info("Final of Task #%d, place %d: %s", task_id, place, contender)
            task.counts.rematched_at = task.trials
        save_search(task, database)

    def _end_tasks(self, reason: str) -> None:
        why = "the time is used up" if reason == "budget" else "all trials are done"
        # Those that matter most come first, in case that there is no time for all finals.
        times = [task.task_weight * (task.best_secs or 0.0) for task in self.tasks]
        for number in sorted(range(len(self.tasks)), key=lambda n: -times[n]):
            if not self.tasks[number].is_terminated:
                self._finish(number, why)
        error = self.error
        if error is not None and not any(task.trials for task in self.tasks):
            raise error

    def _keep_results(self) -> None:
        """Every task has a result: at least the schedule that needs no search.

        Models calculate that themselves, and those who pressed Ctrl-C wait for theirs.
        """
        database = self.kept_in
        if database is None:
            return
        for number, task in enumerate(self.tasks):
            if task.starts_late:
                continue
            if database.query_tuning_record(task.mod, task.target, task.ctx.task_name) is None:
                self.tell(PhaseChanged(number, "zero-search", 1))
                keep_without_search(task, database, self.measurer)

    def _post_tuning(self) -> None:
        for task in self.tasks:
            if task.search.is_running:
                task.search.is_running = False
                task.ctx.post_tuning()
