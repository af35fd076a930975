"""`TuningSession`: the members and limits of a tuning run, shared by its loop and its rounds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING

from tilewright.database import Database
from tilewright.records import Candidates
from tilewright.support.member_failures import MemberFailures
from tilewright.tune.abilities import Predicting
from tilewright.tune.budget import Budget
from tilewright.tune.callbacks import AddToDatabase
from tilewright.tune.events import Event, MemberFailed
from tilewright.tune.measuring import Measuring
from tilewright.tune.options import TuneOptions
from tilewright.tune.task import TaskRecord

if TYPE_CHECKING:
    from tilewright.tune.policy import TaskScheduler


@dataclass
class TuningSession:
    """One tuning run."""

    policy: TaskScheduler
    options: TuneOptions
    measurer: Measuring
    reported_to: InitVar[MemberFailures | None] = None  # else by what the options say
    failures: MemberFailures = field(init=False)
    budget: Budget = field(init=False)
    earlier_secs: float = 0.0  # of earlier calls that this run goes on from
    empty_rounds: int = 0  # in a row
    error: Exception | None = None  # the first of a search

    def __post_init__(self, reported_to: MemberFailures | None) -> None:
        self.failures = reported_to or MemberFailures(keep_going=self.options.keep_going)
        self.failures.show = self._show
        self.budget = Budget(self.options.budget_secs, self.policy.clock, len(self.tasks))

    @property
    def tasks(self) -> list[TaskRecord]:
        """All tasks of the run."""
        return self.policy.tasks

    @property
    def logger(self) -> logging.Logger:
        """The log of the run; tasks have their own."""
        return self.policy.logger

    @property
    def kept_in(self) -> Database | None:
        """The database, if records are added to it."""
        keeps = any(isinstance(each, AddToDatabase) for each in self.policy.measure_callbacks)
        return self.policy.database if keeps else None

    def trials_left(self, task: TaskRecord) -> int:
        """How many more candidates of a task may be measured."""
        total = sum(each.trials for each in self.tasks)
        return min(self.options.task_trials - task.trials, self.options.trials - total)

    def plateau(self, task: TaskRecord) -> str:
        """Why a task is done, if it stopped improving."""
        most = self.options.plateau_trials
        if most is None or task.counts.since_gain < most:
            return ""
        return f"no gain in the last {most} trials"

    def predictions(self, task: TaskRecord, candidates: Candidates) -> Sequence[float | None]:
        """The model's scores of candidates; most strategies have asked it already."""
        strategy: object = task.ctx.search_strategy
        model = self.policy.cost_model
        known = strategy.predictions if isinstance(strategy, Predicting) else [None]
        is_known = all(score is not None for score in known)
        if is_known or model is None:
            return list(known) if is_known else ()
        try:
            return [float(score) for score in model.predict(task.ctx, candidates)]
        except Exception as error:
            self.model_failed(error)
            return ()

    # --- events and members that fail -----------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Show an event to the observers."""
        for observer in self.policy.observers:
            try:
                observer(event)
            except Exception as error:
                self.member_failed("an observer of the tuning", error)

    def search_failure(
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
            self.failures.take(who, error, context.space_generator, context.search_strategy)
            self.logger.exception("the search of Task #%d failed", task_id)
            self.error = self.error or error
            return f"its search failed: {type(error).__name__}: {error}"
        return ""

    def model_failed(self, error: Exception) -> None:
        """The cost model raised an exception."""
        model = self.policy.cost_model
        self.member_failed(f"cost model {type(model).__name__}", error, model)

    def member_failed(self, who: str, error: Exception, *members: object) -> None:
        """Stop if it is the user's own member and the run is not to keep going; log it if ours."""
        if not self.failures.take(who, error, *members):
            self.logger.warning("%s failed: %s: %s", who, type(error).__name__, error)

    def _show(self, failure: str) -> None:
        self.logger.error("%s", failure)
        self.tell(MemberFailed(failure))
