"""The bare loop: a policy, options, and something that measures. No workers, no database."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.records import BuilderResult, MeasureCandidate, RunnerResult
from tilewright.testing.fake_measuring import seconds_of_hash
from tilewright.testing.small_search import matmul, tile_all
from tilewright.tune.context import TuneContext
from tilewright.tune.events import Event, RoundMeasured, TuningFinished
from tilewright.tune.loop import TuningLoop
from tilewright.tune.measuring import RoundResults
from tilewright.tune.options import TuneOptions
from tilewright.tune.policy import RoundRobin
from tilewright.tune.task import TaskRecord


class FakeMeasurer:
    """Says what a candidate takes by its hash."""

    can_rematch = False

    def warm_up(self) -> None:
        """Nothing to start."""

    def build_ahead(self, task: TaskRecord, candidate: MeasureCandidate) -> None:
        """Nothing to build."""

    def measure(
        self,
        task: TaskRecord,
        candidates: Sequence[MeasureCandidate],
        tell: Callable[[str, int], None],
        has_time: Callable[[], bool] = lambda: True,
        *,
        is_quick: bool = False,
    ) -> RoundResults:
        results = [RunnerResult((seconds_of_hash(each.program_hash),)) for each in candidates]
        return RoundResults([BuilderResult("fake")] * len(candidates), results)

    def rematch(
        self, task: TaskRecord, candidates: Sequence[MeasureCandidate], rows: int, seconds: float
    ) -> list[RunnerResult | None]:
        raise AssertionError("there is no final without records")


def a_task(name: str) -> TaskRecord:
    context = TuneContext(
        matmul,
        target="llvm -num-cores=2",
        space_generator=tile_all,
        search_strategy="replay-trace",
        task_name=name,
        rand_state=1,
    )
    return TaskRecord(context)


def test_a_bare_loop() -> None:
    events: list[Event] = []
    policy = RoundRobin(observers=[events.append])
    policy.tasks = [a_task("first"), a_task("second")]
    TuningLoop(
        policy, TuneOptions(max_trials_global=10, num_trials_per_iter=4), FakeMeasurer()
    ).run()
    rounds = [(e.task_id, e.trials) for e in events if isinstance(e, RoundMeasured)]
    assert rounds == [(0, 4), (1, 4), (0, 2)]
    assert [task.trials for task in policy.tasks] == [6, 4]
    assert all(task.is_terminated and task.best_secs for task in policy.tasks)
    assert [e.reason for e in events if isinstance(e, TuningFinished)] == ["done"]
