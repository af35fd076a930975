"""`ReplayTrace` and `ReplayFunc`."""

from __future__ import annotations

import logging

import pytest

from tilewright.errors import TuneError
from tilewright.records import candidate_hash
from tilewright.schedule import Schedule
from tilewright.search import ReplayFunc, ReplayTrace
from tilewright.space.base import Postproc
from tilewright.testing.small_search import MODULE, Search, nothing, tile_two

STRATEGIES = (ReplayTrace, ReplayFunc)


class RejectsAll(Postproc):
    def apply(self, sch: Schedule) -> bool:
        return False


class RejectsEverySecond(Postproc):
    def __init__(self) -> None:
        self.turn = 0

    def apply(self, sch: Schedule) -> bool:
        self.turn += 1
        return self.turn % 2 == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_batches_cover_the_trials(strategy: type[ReplayTrace | ReplayFunc]) -> None:
    assert Search(strategy()).begin(20, 7).sizes() == [7, 7, 6]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_small_space_is_measured_once_and_completely(
    strategy: type[ReplayTrace | ReplayFunc],
) -> None:
    sizes = Search(strategy(max_fail_count=400), tile_two).begin(1000, 16).sizes()
    assert sum(sizes) == 25


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_space_of_one_program(strategy: type[ReplayTrace | ReplayFunc]) -> None:
    assert Search(strategy(), nothing).begin(20, 7).sizes() == [1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rejected_drafts_are_replaced(strategy: type[ReplayTrace | ReplayFunc]) -> None:
    search = Search(strategy(), postprocs=[RejectsEverySecond()]).begin(8, 4)
    assert search.sizes() == [4, 4]
    statistics = search.strategy.statistics  # type: ignore[attr-defined]
    assert statistics.rejected == {"RejectsEverySecond": 8}
    assert (statistics.proposed, statistics.legal, statistics.sent) == (16, 8, 8)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_legal_ends_the_search(strategy: type[ReplayTrace | ReplayFunc]) -> None:
    search = Search(strategy(max_fail_count=3), postprocs=[RejectsAll()]).begin(8, 4)
    assert search.next_batch() is None
    assert search.strategy.statistics.rejected == {"RejectsAll": 3}  # type: ignore[attr-defined]


def test_function_that_fails_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    turn = 0

    def fails_half_the_time(sch: Schedule) -> None:
        nonlocal turn
        turn += 1
        if turn % 2 == 0:
            raise RuntimeError("a bug of the user's")
        tile_two(sch)

    search = Search(ReplayFunc(), fails_half_the_time).begin(6, 6)
    with caplog.at_level(logging.WARNING):
        assert search.sizes() == [6]
    failures = search.strategy.statistics.other_failures  # type: ignore[attr-defined]
    assert set(failures) == {"ScheduleFn: RuntimeError"}
    assert failures.total() >= 5
    texts = [record.getMessage() for record in caplog.records]
    assert texts == [
        "ScheduleFn failed with RuntimeError: a bug of the user's; it is skipped, and later "
        "failures like it without a message"
    ]


def test_replay_that_fails_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    search = Search(ReplayTrace(max_fail_count=4), tile_two).begin(2, 2)
    sketch = search.strategy._tuning.sketches[0].trace  # type: ignore[attr-defined]
    del sketch.insts[0]  # what follows needs the block that it found
    with caplog.at_level(logging.WARNING):
        assert search.next_batch() is None
    failures = search.strategy.statistics.replay_failures  # type: ignore[attr-defined]
    assert failures == {"ScheduleError": 4}
    assert caplog.messages == [
        "a replay failed with ScheduleError: the trace uses a random variable before it defines "
        "it; it is skipped, and later failures like it without a message"
    ]


def test_failing_primitive_is_named() -> None:
    search = Search(ReplayTrace(max_fail_count=4), tile_two).begin(2, 2)
    sketch = search.strategy._tuning.sketches[0].trace  # type: ignore[attr-defined]
    split = next(inst for inst in sketch.insts if inst.primitive.kind == "Split")
    sketch.insts.insert(sketch.insts.index(split), split)  # splits the same loop twice
    assert search.next_batch() is None
    failures = search.strategy.statistics.replay_failures  # type: ignore[attr-defined]
    assert failures == {"split: ExpiredHandle": 4}


def test_seed_decides() -> None:
    def proposed(seed: int) -> list[str]:
        batch = Search(ReplayTrace(), seed=seed).begin(5, 5).next_batch()
        assert batch is not None
        return [candidate_hash(candidate) for candidate in batch]

    assert proposed(1) == proposed(1)
    assert proposed(1) != proposed(2)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_bad_settings(strategy: type[ReplayTrace | ReplayFunc]) -> None:
    with pytest.raises(TuneError, match="max_fail_count must be at least 1, got 0"):
        strategy(max_fail_count=0)


def test_mistakes_in_the_order_of_calls() -> None:
    strategy = ReplayTrace()
    with pytest.raises(TuneError, match="call pre_tuning before generate_measure_candidates"):
        strategy.generate_measure_candidates()
    with pytest.raises(TuneError, match="call pre_tuning before notify_runner_results"):
        strategy.notify_runner_results([], [])
    with pytest.raises(TuneError, match="was not initialised"):
        strategy.pre_tuning(1, 1, [Schedule(MODULE)])
    search = Search(strategy).begin(5, 5)
    with pytest.raises(TuneError, match="pre_tuning was called twice without post_tuning"):
        search.begin(5, 5)
    strategy.post_tuning()
    with pytest.raises(TuneError, match="must be at least 1, got 0 and 5"):
        search.begin(0, 5)
    with pytest.raises(TuneError, match="the search space has no sketch to start from"):
        strategy.pre_tuning(5, 5, [])


def test_task_must_be_complete() -> None:
    task = Search(ReplayTrace()).task
    task.space_generator = None
    with pytest.raises(TuneError, match="ReplayTrace needs a search space"):
        ReplayTrace()._initialize_with_tune_context(task)
    task.mod = None
    with pytest.raises(TuneError, match="ReplayTrace needs a program"):
        ReplayTrace()._initialize_with_tune_context(task)


def test_state_of_another_strategy_is_refused() -> None:
    state = Search(ReplayTrace()).begin(5, 5).strategy.state_dict()
    other = Search(ReplayFunc()).begin(5, 5).strategy
    with pytest.raises(TuneError, match="is of strategy 'replay-trace', version 1"):
        other.load_state_dict(state)
    other.load_state_dict({})  # nothing to go on from: a new search
