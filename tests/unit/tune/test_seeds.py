"""What `seed` (`--seed`) promises: the same measurements give the same search."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tilewright.search import EvolutionarySearch
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner, seconds_of_hash
from tilewright.testing.handwritten import matmul
from tilewright.tune import tune_tir

ROUND = 4
FIRST = {"tilewright": 2 + ROUND, "llvm": ROUND}  # with the baselines, if a space has them

MORE = {"tilewright": 5 * ROUND, "llvm": 2 * ROUND}  # a search in TVM's space learns sooner


def measured(seed: int, space: str, seconds: Callable[[int], float] = seconds_of_hash) -> list[int]:
    """The hashes of the candidates of the first round and some more, in their order."""
    runner = FakeRunner(seconds=seconds)
    tune_tir(
        matmul(64, 96, 80), "llvm -num-cores=2", max_trials_global=FIRST[space] + MORE[space],
        num_trials_per_iter=ROUND, builder=FakeBuilder(), runner=runner, space=space, seed=seed,
        strategy=EvolutionarySearch.frugal(population_size=32), console=False,
    )  # fmt: skip
    return runner.ran


@functools.cache
def usually_measured(space: str) -> list[int]:
    """What the tests compare theirs with."""
    return measured(5, space)


@pytest.mark.parametrize("space", ["tilewright", "llvm"])
def test_the_same_measurements_give_the_same_candidates_in_the_same_order(space: str) -> None:
    assert measured(5, space) == usually_measured(space)


@pytest.mark.parametrize("space", ["tilewright", "llvm"])
def test_other_measurements_leave_the_first_round_as_it_was(space: str) -> None:
    first = usually_measured(space)
    other = measured(5, space, lambda shash: seconds_of_hash(~shash))
    assert first[: FIRST[space]] == other[: FIRST[space]]
    assert first != other


def test_another_seed_is_another_search() -> None:
    assert measured(6, "llvm") != usually_measured("llvm")
