"""A policy from outside, given to `tune_tir`: no other file knows of it."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir import IRModule
from tilewright.testing.conformance import task_scheduler
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.handwritten import matmul
from tilewright.tune import tune_tir
from tilewright.tune.events import Event, RoundMeasured
from tilewright.tune.policy import TaskScheduler


@dataclass
class FewestTrials(TaskScheduler):
    """The task with the fewest trials comes next; of equal ones, the last."""

    def next_task_id(self) -> int:
        alive = [n for n, task in enumerate(self.tasks) if not task.is_terminated]
        return min(alive, key=lambda n: (self.tasks[n].trials, -n), default=-1)


def test_a_policy_of_ones_own_decides() -> None:
    events: list[Event] = []
    tune_tir(
        IRModule({"large": matmul(64, 64, 64), "small": matmul(32, 32, 32)}),
        "llvm -num-cores=2",
        max_trials_global=14,
        num_trials_per_iter=4,
        builder=FakeBuilder(),
        runner=FakeRunner(),
        cost_model="random",
        space="post-order-apply",
        strategy="replay-trace",
        task_scheduler=FewestTrials(),
        observers=[events.append],
        console=False,
    )
    rounds = [event for event in events if isinstance(event, RoundMeasured)]
    trials = [0, 0]
    for event in rounds:
        assert trials[event.task_id] == min(trials)
        trials[event.task_id] += event.trials
    assert rounds[0].task_id == 1
    assert sum(trials) == 14


def test_it_does_what_every_policy_must_do() -> None:
    for check in task_scheduler.CHECKS:
        check(FewestTrials)
