"""The first two candidates: the schedule without a search, and the program as it is."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.database import MemoryDatabase
from tilewright.ir import structural_equal, structural_hash
from tilewright.records import BASELINE, PLAIN, ZERO_SEARCH, normalize_mod
from tilewright.schedule import Schedule
from tilewright.target import Target
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.handwritten import matmul
from tilewright.tune import default_schedule, tune_tir

FUNC = matmul(32, 32, 32)
TARGET = "llvm -num-cores=2"


def tuned(trials: int, database: Any = None, **options: Any) -> Any:
    store = MemoryDatabase() if database is None else database
    return tune_tir(
        FUNC, TARGET, max_trials_global=trials, num_trials_per_iter=4, builder=FakeBuilder(),
        database=store, seed=1, console=False, **{"runner": FakeRunner(), **options},
    )  # fmt: skip


def names(database: Any) -> list[str | None]:
    return [record.extra.get(BASELINE) for record in database.get_all_tuning_records()]


@pytest.mark.parametrize("trials", [1, 2, 3, 9])
def test_they_come_first_and_count_as_trials(trials: int) -> None:
    expected = [ZERO_SEARCH, PLAIN, *[None] * trials][:trials]
    assert names(tuned(trials)) == expected


def test_they_are_what_they_are_called() -> None:
    records = tuned(2).get_all_tuning_records()
    zero, plain = (record.as_measure_candidate().sch.mod for record in records)
    assert structural_equal(plain, normalize_mod(FUNC))
    assert structural_equal(zero, default_schedule(FUNC, TARGET).mod)


def test_they_are_measured_once_however_often_the_search_goes_on() -> None:
    database = MemoryDatabase()
    tuned(5, database)
    tuned(10, database)
    assert names(database) == [ZERO_SEARCH, PLAIN, *[None] * 8]


def test_a_program_that_no_schedule_makes_faster_stays_as_it_is() -> None:
    plain = structural_hash(normalize_mod(FUNC))
    runner = FakeRunner(seconds=lambda shash: 1e-6 if shash == plain else 1e-3)
    best = tuned(8, runner=runner).query_schedule(normalize_mod(FUNC), Target(TARGET), "main")
    assert best is not None
    assert structural_equal(best.mod, normalize_mod(FUNC))


def test_spaces_of_the_users_own_have_none() -> None:
    def one_way(sch: Schedule) -> None:
        sch.parallel(sch.get_loops(sch.get_block("C"))[0])

    assert PLAIN not in names(tuned(3, space=one_way))
    assert PLAIN not in names(tuned(3, space="post-order-apply"))


def test_runners_are_told_which_candidate_is_the_program() -> None:
    runner = FakeRunner()
    tuned(4, runner=runner)
    assert [given.is_plain for given in runner.inputs] == [False, True, False, False]


def test_gpus_do_not_run_the_program_as_it_is() -> None:
    runner, builder, target = FakeRunner(), FakeBuilder(), "nvidia/nvidia-h200"
    database = tune_tir(
        FUNC, target, max_trials_global=4, num_trials_per_iter=4, builder=builder,
        database=MemoryDatabase(), seed=1, console=False, runner=runner,
    )  # fmt: skip
    assert names(database) == [ZERO_SEARCH, None, None, None]
    assert not any(given.is_plain for given in runner.inputs)
    # A CPU computes what their results are compared with, and they may be as fast as they like.
    reference = structural_hash(default_schedule(normalize_mod(FUNC), "llvm").mod)
    assert {given.reference_path for given in runner.inputs} == {f"fake:{reference:x}"}
    assert {given.min_secs for given in runner.inputs} == {None}
