"""The best candidates are measured against each other at the end."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tilewright.database import Database, MemoryDatabase, TaskRecords
from tilewright.ir import structural_hash
from tilewright.records import (
    BASELINE,
    ZERO_SEARCH,
    FailureKind,
    RunnerInput,
    RunnerResult,
    TuningRecord,
)
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import matmul, tile_all
from tilewright.tune import tune_tir
from tilewright.tune.events import Event, TuningStarted
from tilewright.tune.finals import MOST, Contender, _contenders, scale_of
from tilewright.tune.measuring import MOST_HEATS

Again = Callable[[int], float]  # seconds in the final of the program with a hash


class Judge(FakeRunner):
    """Has another opinion in the final; `rows` of them a heat."""

    def __init__(self, again: Again, **options: Any) -> None:
        super().__init__(**options)
        self.again = again
        self.finals: list[list[int]] = []
        self.rounds: list[int] = []
        self.wrong: set[int] = set()
        self.rows = 1

    def measure_again(
        self, runner_inputs: Sequence[RunnerInput], rounds: int = 7
    ) -> list[RunnerResult]:
        hashes = [int(each.artifact_path.removeprefix("fake:"), 16) for each in runner_inputs]
        self.finals.append(hashes)
        self.rounds.append(rounds)
        return [
            RunnerResult(None, "not equal", FailureKind.WRONG_RESULT)
            if shash in self.wrong
            else RunnerResult(self._times(shash), checked=True, protocol="final")
            for shash in hashes
        ]

    def _times(self, shash: int) -> tuple[float, ...]:
        return tuple(self.again(shash) for _ in range(self.rows))


def ranks(*secs: float) -> Callable[[int], float]:
    """The first programs that are asked for take so long, all others a second."""
    known: dict[int, float] = {}

    def seconds(shash: int) -> float:
        if shash not in known:
            known[shash] = secs[len(known)] if len(known) < len(secs) else 1.0
        return known[shash]

    return seconds


def tune(runner: FakeRunner, database: Database | None = None, **options: Any) -> Database:
    defaults: dict[str, Any] = {"max_trials_global": 8, "num_trials_per_iter": 8}
    return tune_tir(
        matmul,
        "llvm -num-cores=2",
        builder=FakeBuilder(),
        runner=runner,
        database=MemoryDatabase() if database is None else database,
        space=tile_all,
        strategy="replay-trace",
        cost_model=None,
        seed=7,
        console=False,
        **{**defaults, **options},
    )


def best(database: Database, count: int = 8) -> list[TuningRecord]:
    (workload,) = database.workloads()
    return database.get_top_k(workload, count)


def hash_of(record: TuningRecord) -> int:
    return structural_hash(record.as_measure_candidate().sch.mod)


def test_contenders_are_those_that_come_close() -> None:
    judge = Judge(lambda shash: 1e-4, seconds=ranks(1.00e-4, 1.1e-4, 1.21e-4, 3e-4))
    tune(judge)
    assert [len(heat) for heat in judge.finals] == [2, 2, 2]
    assert set(judge.finals[0]) == set(judge.ran[:2])


def test_there_are_at_most_five() -> None:
    judge = Judge(lambda shash: 1e-4, seconds=lambda shash: 1e-4)
    tune(judge)
    assert [len(heat) for heat in judge.finals] == [5, 5, 5]


def test_one_that_was_lucky_is_found_out() -> None:
    first = ranks(1.0e-4, 1.7e-4, 1.8e-4)
    judge = Judge(lambda shash: {1.0e-4: 1.75e-4, 1.7e-4: 1.7e-4}[first(shash)], seconds=first)
    database = tune(judge)
    assert [len(heat) for heat in judge.finals] == [2, 2, 2]
    assert hash_of(best(database, 1)[0]) == judge.ran[1]


def test_one_that_is_clearly_best_needs_no_final() -> None:
    judge = Judge(lambda shash: 1e-4, seconds=ranks(1e-4, 2.1e-4))
    tune(judge)
    assert judge.finals == []


def test_the_final_decides() -> None:
    first = ranks(1.00e-4, 1.05e-4)
    judge = Judge(lambda shash: {1.00e-4: 1.04e-4, 1.05e-4: 1.02e-4}[first(shash)], seconds=first)
    database = tune(judge)
    winner, second = best(database, 2)
    assert [hash_of(winner), hash_of(second)] == [judge.ran[1], judge.ran[0]]
    assert winner.run_secs == (1.02e-4,)
    assert winner.extra["first_run_secs"] == [1.05e-4]
    assert winner.extra["final_run_secs"] == [1.02e-4]
    assert winner.extra["final_heat_secs"] == [1.02e-4] * 3
    assert winner.extra["final_protocol"] == "final"
    assert winner.extra["protocol"] == "fake"
    assert len(database) == 8


def test_a_disturbed_machine_makes_nobody_worse_than_the_rest() -> None:
    """Everything takes twice as long in the final: its order counts, not its times."""
    first = ranks(1.00e-4, 1.05e-4, 1.3e-4)
    twice = {1.00e-4: 2.2e-4, 1.05e-4: 2.0e-4}
    judge = Judge(lambda shash: twice[first(shash)], seconds=first)
    database = tune(judge)
    order = [judge.ran.index(hash_of(record)) for record in best(database, 3)]
    assert order == [1, 0, 2]
    # The median of 2.2 and 1.905 is taken for the disturbance.
    assert best(database, 1)[0].mean_secs == pytest.approx(2.0e-4 / 2.0524, rel=1e-4)


def test_who_was_not_in_the_final_does_not_overtake_its_winner() -> None:
    """All contenders were lucky at first, and so was the sixth, which nobody looked at again."""
    first = ranks(1.00e-4, 1.01e-4, 1.02e-4, 1.03e-4, 1.04e-4, 1.05e-4)
    judge = Judge(lambda shash: 1.08 * first(shash), seconds=first)
    database = tune(judge)
    winner, *others = best(database)
    assert hash_of(winner) == judge.ran[0]
    assert winner.extra["final_run_secs"] == [pytest.approx(1.08e-4)]
    assert winner.mean_secs < min(other.mean_secs for other in others)


def test_who_was_ahead_of_all_that_ran_in_the_final_stays_ahead() -> None:
    """For example because the best was wrong, and only a slow one was compared with it."""
    found = best(tune(FakeRunner(seconds=ranks(1e-4, 1.5e-4, 1.9e-4))), 3)
    ran = [Contender(found[1], RunnerResult((1.6e-4,)))]
    assert scale_of(ran, [found[2]]) == 1.0
    assert scale_of(ran, [replace(found[2], run_secs=(1.55e-4,))]) == pytest.approx(0.968, abs=1e-3)
    assert scale_of(ran, [found[0]]) == 1.0


def test_a_contender_that_turns_out_wrong_is_out() -> None:
    judge = Judge(lambda shash: 1e-4, seconds=ranks(1.00e-4, 1.05e-4))
    judge.wrong = {_first_hash()}
    database = tune(judge)
    assert judge.ran[0] in judge.wrong
    assert hash_of(best(database, 1)[0]) == judge.ran[1]
    failed = [r for r in database.get_all_tuning_records() if r.failure is not None]
    assert [(r.failure, r.error_msg) for r in failed] == [(FailureKind.WRONG_RESULT, "not equal")]


def _first_hash() -> int:
    runner = FakeRunner()
    tune(runner)
    return runner.ran[0]


def test_slow_kernels_have_fewer_rows_fewer_contenders_or_no_final() -> None:
    def heats_for(secs: float) -> tuple[int, list[int]]:
        """How many contenders there are, and the rows of each heat."""
        judge = Judge(lambda shash: secs, seconds=lambda shash: secs)
        tune(judge)
        return len(judge.finals[0]) if judge.finals else 0, judge.rounds

    assert heats_for(1e-4) == (5, [12, 12, 12])
    assert heats_for(0.015) == (5, [2, 2, 2])
    assert heats_for(0.05) == (3, [1, 1, 1])
    assert heats_for(0.08) == (2, [1, 1, 1])
    assert heats_for(0.09) == (0, [])


# --- noise --------------------------------------------------------------------------------------


def noisy(share: float, seed: int, secs: Callable[[int], float]) -> Judge:
    """Every figure of the final is off by chance, by this share."""
    generator = random.Random(seed)
    return Judge(lambda shash: secs(shash) * generator.gauss(1.0, share), seconds=secs)


def test_the_best_wins_however_noisy_the_machine_is() -> None:
    """Once is not enough: noise of 4 % and a difference of 5 % would give a wrong order often."""
    right = []
    for seed in range(20):
        judge = noisy(0.04, seed, ranks(1.00e-4, 1.05e-4, 1.10e-4))
        right.append(hash_of(best(tune(judge), 1)[0]) == judge.ran[0])
    assert right == [True] * 20


def disturbed(secs: Again, seed: int) -> Again:
    """One figure in four is twice as long."""
    generator = random.Random(seed)
    return lambda shash: secs(shash) * generator.choice((1, 1, 1, 2))


def test_turns_in_which_one_was_disturbed_have_no_say() -> None:
    """Means of turns would be off by far more than the 3 % that there are to find."""
    right, heats = [], []
    for seed in range(20):
        judge = noisy(0.03, seed, ranks(1.00e-4, 1.03e-4))
        judge.again, judge.rows = disturbed(judge.again, seed), 12
        right.append(hash_of(best(tune(judge), 1)[0]) == judge.ran[0])
        heats.append(len(judge.finals))
    assert right.count(True) >= 19
    assert sum(heats) / len(heats) < MOST_HEATS


def test_heats_end_once_the_order_is_clear() -> None:
    judge = noisy(0.001, 1, ranks(1.00e-4, 1.05e-4))
    tune(judge)
    assert len(judge.finals) == 3


def test_who_is_clearly_slower_drops_out() -> None:
    judge = noisy(0.02, 1, ranks(1.00e-4, 1.015e-4, 1.19e-4))
    tune(judge)
    first, *_, last = judge.finals
    assert len(first) == 3
    assert judge.ran[2] not in last
    assert judge.ran[0] in last


def test_who_is_as_good_is_not_measured_for_ever() -> None:
    judge = noisy(0.004, 1, ranks(1.00e-4, 1.001e-4))
    tune(judge)
    assert len(judge.finals) <= 8


def test_heats_end_with_the_time() -> None:
    judge = noisy(0.3, 1, ranks(1.00e-4, 1.001e-4))
    tune(judge, budget_secs=1e-9)
    assert len(judge.finals) in (0, 3)
    judge = noisy(0.3, 1, ranks(1.00e-4, 1.001e-4))
    tune(judge)
    assert 3 < len(judge.finals) <= MOST_HEATS


def test_the_final_is_held_once() -> None:
    judge, database = Judge(lambda shash: 1e-4, seconds=lambda shash: 1e-4), MemoryDatabase()
    for _ in range(3):
        tune(judge, database)
    assert len(judge.finals) == 3  # its heats
    tune(judge, database, max_trials_global=12)
    assert len(judge.finals) == 6


def test_first_figures_outlive_two_finals() -> None:
    judge, database = Judge(lambda shash: 3e-4, seconds=lambda shash: 1e-4), MemoryDatabase()
    tune(judge, database)
    tune(judge, database, max_trials_global=12)
    again = [r for r in database.get_all_tuning_records() if "final_run_secs" in r.extra]
    assert len(again) >= MOST
    assert {tuple(record.as_made().run_secs or ()) for record in again} == {(1e-4,)}


def test_figures_of_a_task_are_those_of_the_final() -> None:
    events: list[Event] = []
    first = ranks(1.00e-4, 1.05e-4)
    judge = Judge(lambda shash: {1.00e-4: 1.08e-4, 1.05e-4: 1.06e-4}[first(shash)], seconds=first)
    tune(judge, observers=[events.append])
    (started,) = [event for event in events if isinstance(event, TuningStarted)]
    assert started.tasks[0].best_secs == pytest.approx(1.06e-4)


def test_a_runner_without_finals_is_fine() -> None:
    database = tune(FakeRunner(seconds=lambda shash: 1e-4))
    assert all("final_run_secs" not in r.extra for r in database.get_all_tuning_records())


@pytest.mark.parametrize(("secs", "place"), [(1.9e-4, 1), (2.1e-4, None), (1.05e-4, 1)])
def test_what_was_calculated_takes_part(secs: float, place: int | None) -> None:
    """A search never ends with something slower, unless that is far away anyway."""
    database = tune(Judge(lambda shash: 1e-4, seconds=lambda shash: 1e-4))
    records = best(database)
    (workload,) = database.workloads()
    calculated = replace(records[-1], run_secs=(secs,), extra={BASELINE: ZERO_SEARCH})
    other = MemoryDatabase()
    for record in (*records[:-1], calculated):
        other.commit_tuning_record(record)
    found = _contenders(TaskRecords(other, other.commit_workload(workload.mod), None))
    assert len(found) == MOST
    assert [n for n, record in enumerate(found) if record.baseline == ZERO_SEARCH] == (
        [] if place is None else [place]
    )
