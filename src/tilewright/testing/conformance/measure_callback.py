"""Checks that every measure callback must pass.

from tilewright.testing.conformance import measure_callback

@pytest.mark.parametrize("check", measure_callback.CHECKS)
def test_conformance(check):
    check(MyCallback)

Checks take a function that makes the callback.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.cost_model.random_model import RandomModel
from tilewright.database import MemoryDatabase
from tilewright.records import BuilderResult, FailureKind, MeasureCandidate, RunnerResult
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import matmul, tile_all
from tilewright.tune.callbacks import MeasureCallback
from tilewright.tune.context import TuneContext
from tilewright.tune.policy import RoundRobin

MakeCallback = Callable[[], MeasureCallback]


class _Watched(MeasureCallback):
    """Passes everything on; failures are kept, and so is what the lists were before."""

    def __init__(self, inner: MeasureCallback) -> None:
        self.inner = inner
        self.failures: list[Exception] = []
        self.rounds = 0

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        lists = (measure_candidates, builder_results, runner_results)
        before = [copy.copy(each) for each in lists]
        self.rounds += 1
        try:
            self.inner.apply(task_scheduler, task_id, *lists)
        except Exception as error:
            self.failures.append(error)
        assert [list(each) for each in lists] == [list(each) for each in before]


def _tune(make: MakeCallback, **options: Any) -> _Watched:
    watched = _Watched(make())
    context = TuneContext(
        matmul,
        target="llvm -num-cores=2",
        space_generator=tile_all,
        search_strategy="replay-trace",
        rand_state=1,
        num_threads=1,
    )
    RoundRobin().tune(
        [context],
        [1.0],
        8,
        num_trials_per_iter=4,
        builder=options.get("builder", FakeBuilder()),
        runner=options.get("runner", FakeRunner()),
        measure_callbacks=[watched],
        database=options.get("database", MemoryDatabase()),
        cost_model=options.get("cost_model", RandomModel(seed=1)),
    )
    return watched


def check_rounds(make: MakeCallback) -> None:
    """It takes every round, and leaves the lists alone."""
    watched = _tune(make)
    assert watched.rounds == 2
    assert watched.failures == []


def check_failures(make: MakeCallback) -> None:
    """Candidates that neither build nor run are no reason to fail."""
    builder = FakeBuilder(lambda shash: FailureKind.BUILD_ERROR if shash % 2 else None)
    runner = FakeRunner(lambda shash: FailureKind.CRASH)
    assert _tune(make, builder=builder, runner=runner).failures == []


def check_without_database_and_model(make: MakeCallback) -> None:
    """Neither of them need be there."""
    assert _tune(make, database=None, cost_model=None).failures == []


CHECKS = (check_rounds, check_failures, check_without_database_and_model)
