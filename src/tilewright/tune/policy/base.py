"""`TaskScheduler`: the policy that decides which task gets the next round.

TVM measures a round while it looks for the next task; here a round is over when the next task is
asked for. So nothing is ever running that would have to be joined.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import attrgetter

from tilewright.cost_model.base import CostModel
from tilewright.database import Database
from tilewright.errors import TuneError
from tilewright.measure import Builder, Runner, builders, runners
from tilewright.records import RunnerResults
from tilewright.support.member_failures import MemberFailures
from tilewright.support.plugins import Family
from tilewright.tune.abilities import make_member
from tilewright.tune.callbacks import MeasureCallback
from tilewright.tune.context import TuneContext
from tilewright.tune.events import Observer
from tilewright.tune.logs import statistics_table
from tilewright.tune.loop import TuningLoop
from tilewright.tune.measuring import Measurer
from tilewright.tune.options import TuneOptions
from tilewright.tune.task import TaskRecord


@dataclass
class TaskScheduler(ABC):
    """Chooses the task of the next round: subclasses say which. The names are those of TVM."""

    logger: logging.Logger = field(
        default_factory=lambda: logging.getLogger("tilewright.tune"), kw_only=True
    )
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True)
    observers: list[Observer] = field(default_factory=list, kw_only=True)
    tasks: list[TaskRecord] = field(default_factory=list, init=False)
    database: Database | None = field(default=None, init=False)
    cost_model: CostModel | None = field(default=None, init=False)
    measure_callbacks: list[MeasureCallback] = field(default_factory=list, init=False)
    _loop: TuningLoop | None = field(default=None, init=False, repr=False)

    @abstractmethod
    def next_task_id(self) -> int:
        """The task of the next round; -1 if none is left."""

    @staticmethod
    def create(kind: str = "gradient", *args: object, **options: object) -> TaskScheduler:
        """A scheduler by name."""
        return task_schedulers.create(kind, *args, **options)

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
        options = TuneOptions(
            max_trials_global=max_trials_global,
            max_trials_per_task=max_trials_per_task,
            num_trials_per_iter=num_trials_per_iter,
            budget_secs=budget_secs,
            plateau_trials=plateau_trials,
            builder=builder,
            runner=runner,
            check=check,
            keep_going=keep_going,
        )
        self.database, self.cost_model = database, cost_model
        self.measure_callbacks = list(measure_callbacks)
        self.run(weighted(tasks, task_weights), options)

    def run(
        self,
        tasks: Sequence[TaskRecord],
        options: TuneOptions,
        failures: MemberFailures | None = None,
    ) -> None:
        """Tune with the database, the cost model and the callbacks that are set."""
        self.tasks = list(tasks)
        failures = failures or MemberFailures(keep_going=options.keep_going)
        with ExitStack() as closing:
            measurer = Measurer(
                make_member(options.builder, builders, closing),
                make_member(options.runner, runners, closing),
                self.logger,
                options.check,
                failures,
            )
            self._loop = TuningLoop(self, options, measurer, failures)
            self._loop.run()

    def terminate_task(self, task_id: int, reason: str = "its scheduler ended it") -> None:
        """A task gets no more trials, the others go on."""
        if self._loop is not None:
            self._loop.end_task(task_id, reason)

    # --- what schedulers written for TVM read and call ------------------------------------------

    tasks_ = property(attrgetter("tasks"))
    database_ = property(attrgetter("database"))
    cost_model_ = property(attrgetter("cost_model"))
    measure_callbacks_ = property(attrgetter("measure_callbacks"))

    @property
    def remaining_tasks_(self) -> int:
        """How many tasks are not finished."""
        return sum(not task.is_terminated for task in self.tasks)

    def touch_task(self, task_id: int) -> None:  # noqa: B027  (nobody need override it)
        """Join what is running of a task if it is done: nothing is running."""

    def join_running_task(self, task_id: int) -> RunnerResults:
        """The results of the last round of a task; called once after each round."""
        return self.tasks[task_id].round.results

    def print_tuning_statistics(self) -> None:
        """Log the table of all tasks."""
        self.logger.info("\n%s", statistics_table(self.tasks))


def weighted(
    tasks: Sequence[TuneContext | TaskRecord], weights: Sequence[float]
) -> list[TaskRecord]:
    """Tasks as records with their weights; there must be one, with a target and a weight each."""
    if not tasks:
        raise TuneError("there are no tasks to tune; give at least one")
    if len(tasks) != len(weights):
        raise TuneError(f"{len(tasks)} tasks have {len(weights)} weights; give one for each")
    records = [task if isinstance(task, TaskRecord) else TaskRecord(task) for task in tasks]
    for record, weight in zip(records, weights, strict=True):
        if record.ctx.target is None:
            raise TuneError(f"task {record.ctx.task_name!r} has no target; give TuneContext one")
        record.task_weight = float(weight)
    return records


task_schedulers: Family[TaskScheduler] = Family("task scheduler", "tilewright.task_scheduler")
