"""Our schedulers and callbacks pass the suites that we give to others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.testing.conformance import measure_callback, task_scheduler
from tilewright.tune.callbacks import AddToDatabase, RemoveBuildArtifact, UpdateCostModel
from tilewright.tune.policy import GradientBased, RoundRobin


@pytest.mark.parametrize("make", [GradientBased, RoundRobin])
@pytest.mark.parametrize("check", task_scheduler.CHECKS)
def test_schedulers(
    check: Callable[[task_scheduler.MakeScheduler], None], make: task_scheduler.MakeScheduler
) -> None:
    check(make)


@pytest.mark.parametrize("make", [AddToDatabase, RemoveBuildArtifact, UpdateCostModel])
@pytest.mark.parametrize("check", measure_callback.CHECKS)
def test_callbacks(
    check: Callable[[measure_callback.MakeCallback], None], make: measure_callback.MakeCallback
) -> None:
    check(make)


class AlwaysFirst(RoundRobin):
    """Breaks the contract: one task gets everything."""

    def next_task_id(self) -> int:
        return 0


def test_the_suite_finds_a_scheduler_that_breaks_the_contract() -> None:
    with pytest.raises(AssertionError):
        task_scheduler.check_every_task_gets_a_turn(AlwaysFirst)
