"""Checks that every task scheduler must pass.

from tilewright.testing.conformance import task_scheduler

@pytest.mark.parametrize("check", task_scheduler.CHECKS)
def test_conformance(check):
    check(MyScheduler)

Checks take a function that makes the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilewright.database import MemoryDatabase
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import matmul, tile_all, tile_two
from tilewright.tune.callbacks import default_callbacks
from tilewright.tune.context import TuneContext
from tilewright.tune.events import Event, RoundMeasured, TuningFinished
from tilewright.tune.policy import TaskScheduler

MakeScheduler = Callable[[], TaskScheduler]


@dataclass
class SchedulerSession:
    """A scheduler at work on small tasks with fakes."""

    scheduler: TaskScheduler
    events: list[Event] = field(default_factory=list)
    database: MemoryDatabase = field(default_factory=MemoryDatabase)

    def tune(self, tasks: int, space: Any = tile_all, **limits: int) -> SchedulerSession:
        """Tune `tasks` tasks."""
        chosen: dict[str, Any] = {
            "max_trials_global": 24,
            "max_trials_per_task": 24,
            "num_trials_per_iter": 4,
        }
        contexts = [
            TuneContext(
                matmul,
                target="llvm -num-cores=2",
                space_generator=space,
                search_strategy="replay-trace",
                task_name=f"task{number}",
                rand_state=number + 1,
                num_threads=1,
            )
            for number in range(tasks)
        ]
        self.scheduler.observers.append(self.events.append)
        self.scheduler.tune(
            contexts,
            [1.0] * tasks,
            **{**chosen, **limits},
            builder=FakeBuilder(),
            runner=FakeRunner(),
            measure_callbacks=default_callbacks(),
            database=self.database,
        )
        return self

    @property
    def trials(self) -> list[int]:
        """The trials of each task."""
        return [task.trials for task in self.scheduler.tasks]


def check_every_task_gets_a_turn(make: MakeScheduler) -> None:
    """Before a task gets a third round, every other one has had a round."""
    session = SchedulerSession(make()).tune(3)
    rounds = [event.task_id for event in session.events if isinstance(event, RoundMeasured)]
    seen: set[int] = set()
    for place, task_id in enumerate(rounds):
        assert rounds[:place].count(task_id) < 2 or seen == {0, 1, 2}, rounds
        seen.add(task_id)
    assert seen == {0, 1, 2}


def check_all_trials_are_used(make: MakeScheduler) -> None:
    """As many trials as allowed, not one more."""
    assert sum(SchedulerSession(make()).tune(2, max_trials_global=18).trials) == 18


def check_limit_of_a_task(make: MakeScheduler) -> None:
    """No task gets more than its share."""
    session = SchedulerSession(make()).tune(3, max_trials_per_task=6, max_trials_global=1000)
    assert session.trials == [6, 6, 6]


def check_spaces_that_are_used_up(make: MakeScheduler) -> None:
    """Tasks without candidates end, and then everything does."""
    session = SchedulerSession(make()).tune(
        2, tile_two, max_trials_global=1000, max_trials_per_task=1000
    )
    assert session.trials == [25, 25]
    assert session.scheduler.next_task_id() == -1


def check_finished_tasks_get_nothing(make: MakeScheduler) -> None:
    """A task that is terminated is never chosen."""
    scheduler = make()
    SchedulerSession(scheduler).tune(3, max_trials_global=3, num_trials_per_iter=1)
    for task in scheduler.tasks:
        task.is_terminated = False
    scheduler.tasks[1].is_terminated = True
    assert {scheduler.next_task_id() for _ in range(12)} <= {0, 2}
    for task in scheduler.tasks:
        task.is_terminated = True
    assert scheduler.next_task_id() == -1


def check_usable_again(make: MakeScheduler) -> None:
    """A scheduler serves many calls."""
    scheduler = make()
    for tasks in (3, 1):
        assert sum(SchedulerSession(scheduler).tune(tasks, max_trials_global=8).trials) == 8


def check_the_end_is_told(make: MakeScheduler) -> None:
    """The last event says how it ended."""
    last = SchedulerSession(make()).tune(1, max_trials_global=4).events[-1]
    assert isinstance(last, TuningFinished)
    assert last.reason == "done"


CHECKS = (
    check_every_task_gets_a_turn,
    check_all_trials_are_used,
    check_limit_of_a_task,
    check_spaces_that_are_used_up,
    check_finished_tasks_get_nothing,
    check_usable_again,
    check_the_end_is_told,
)
