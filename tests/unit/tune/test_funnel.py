"""How far candidates got, and why the others did not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tilewright.database import Database, funnel_totals
from tilewright.records import BuilderResult, FailureKind, RunnerResult
from tilewright.search import ReplayTrace
from tilewright.search.replayer import SearchStatistics
from tilewright.space.base import Postproc
from tilewright.space.generators import ScheduleFn
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import matmul, nothing, tile_all
from tilewright.tune import tune_tir
from tilewright.tune.context import TuneContext
from tilewright.tune.events import Event, RoundMeasured
from tilewright.tune.task import TaskRecord, funnel_of

OK = BuilderResult("a")
FAST = RunnerResult((1.0,), checked=True)
SLOW = RunnerResult((9.0,), stopped_early=True)


def a_task(statistics: SearchStatistics | None = None) -> TaskRecord:
    strategy = ReplayTrace()
    context = TuneContext(matmul, space_generator=nothing, search_strategy=strategy)
    if statistics is not None:
        strategy.statistics = statistics
    return TaskRecord(context)


def failed(kind: FailureKind) -> RunnerResult:
    return RunnerResult(None, "why", kind)


def counts(funnel: Any) -> dict[str, tuple[int, dict[str, int]]]:
    return {stage.name: (stage.count, dict(stage.losses)) for stage in funnel.stages}


def test_every_stage_and_reason() -> None:
    statistics = SearchStatistics(proposed=40, legal=30, sent=8, duplicates=5)
    statistics.rejected = Counter({"DisallowDynamicLoop": 6})
    statistics.replay_failures = Counter({"compute_at: ScheduleError": 4})
    pairs = [
        (OK, FAST),
        (OK, SLOW),
        (OK, failed(FailureKind.WRONG_RESULT)),
        (OK, failed(FailureKind.IMPOSSIBLE_SPEED)),
        (OK, failed(FailureKind.CRASH)),
        (OK, failed(FailureKind.TIMEOUT)),
        (BuilderResult(None, "no"), failed(FailureKind.BUILD_ERROR)),
        (BuilderResult(None, "late"), failed(FailureKind.TIMEOUT)),
    ]
    funnel = funnel_of(a_task(statistics), [b for b, _ in pairs], [r for _, r in pairs])
    assert counts(funnel) == {
        "proposed": (40, {}),
        "legal": (
            30,
            {"rejected by DisallowDynamicLoop": 6, "replay: compute_at: ScheduleError": 4},
        ),
        "built": (
            6,
            {"duplicate": 5, "others promised more": 17, "build_error": 1, "timeout": 1},
        ),
        "ran": (4, {"crash": 1, "timeout": 1}),
        "correct": (
            1,
            {"wrong_result": 1, "impossible_speed": 1, "too slow to be checked": 1},
        ),
    }
    assert str(funnel) == (
        "40 proposed -> 30 legal (6 rejected by DisallowDynamicLoop, 4 replay: compute_at: "
        "ScheduleError) -> 6 built (17 others promised more, 5 duplicate, 1 build_error, "
        "1 timeout) -> 4 ran (1 crash, 1 timeout) -> 1 correct (1 too slow to be "
        "checked, 1 wrong_result, 1 impossible_speed)"
    )


def test_without_checks_what_ran_is_taken_for_correct() -> None:
    results = [RunnerResult((1.0,)), RunnerResult((2.0,))]
    funnel = funnel_of(a_task(), [OK, OK], results)
    assert counts(funnel)["correct"] == (2, {})


def test_a_round_counts_what_is_new_since_the_last() -> None:
    statistics = SearchStatistics(proposed=10, legal=8, sent=2)
    task = a_task(statistics)
    assert counts(funnel_of(task, [OK, OK], [FAST, FAST]))["proposed"] == (10, {})
    statistics.proposed += 5
    assert counts(funnel_of(task, [OK], [FAST]))["proposed"] == (5, {})


def test_a_strategy_that_counts_nothing() -> None:
    task = a_task()
    task.ctx.search_strategy = None
    assert counts(funnel_of(task, [OK, OK], [FAST, FAST])) == {
        name: (2, {}) for name in ("proposed", "legal", "built", "ran", "correct")
    }


# --- in a run -----------------------------------------------------------------------------------


class Picky(Postproc):
    """Rejects every third program, and fails at every fourth."""

    def __init__(self) -> None:
        self.seen = 0

    def apply(self, sch: Any) -> bool:
        self.seen += 1
        if self.seen % 4 == 0:
            raise ValueError("I do not like it")
        return self.seen % 3 != 0


def tune(**options: Any) -> tuple[Database, list[Event]]:
    events: list[Event] = []
    defaults: dict[str, Any] = {
        "builder": FakeBuilder(),
        "runner": FakeRunner(),
        "space": ScheduleFn(tile_all, [], [Picky()], {}),
        "cost_model": None,
        "strategy": "replay-trace",
        "seed": 1,
        "keep_going": True,
    }
    database = tune_tir(
        matmul, "llvm -num-cores=2", max_trials_global=12, num_trials_per_iter=6, console=False,
        observers=[events.append], **{**defaults, **options},
    )  # fmt: skip
    return database, events


def test_the_history_has_the_counts_of_each_round() -> None:
    def crashing(shash: int) -> FailureKind | None:
        return FailureKind.CRASH if shash % 4 == 0 else None

    runner = FakeRunner(crashing)
    database, events = tune(runner=runner)
    counts = database.history.funnel(run=1, task="main")
    assert {entry.round for entry in counts} == {0, 1}
    totals = funnel_totals(counts)
    crashed = sum(crashing(shash) is not None for shash in runner.ran)
    assert totals["built", ""] == 12
    assert totals["ran", ""] == totals["correct", ""] == 12 - crashed
    assert totals.get(("ran", "crash"), 0) == crashed
    assert totals["legal", ""] >= 12
    reasons = {
        reason: totals["legal", reason]
        for reason in ("rejected by Picky", "post-processor Picky: ValueError")
    }
    assert all(count > 0 for count in reasons.values())
    assert totals["proposed", ""] == totals["legal", ""] + sum(reasons.values())
    rounds = [event for event in events if isinstance(event, RoundMeasured)]
    assert [event.funnel is not None for event in rounds] == [True, True]


def test_the_log_shows_the_funnel(caplog: pytest.LogCaptureFixture, tmp_path: Any) -> None:
    tune(work_dir=tmp_path)
    log = (tmp_path / "logs" / "tilewright.tune.task_scheduler.log").read_text()
    assert log.count("[INFO] Funnel: ") == 2
    assert " legal (" in log
    assert " -> 6 built -> 6 ran -> 6 correct" in log
