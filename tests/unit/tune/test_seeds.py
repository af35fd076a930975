"""What `seed` (`--seed`) promises: the same measurements give the same search."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner, seconds_of_hash
from tilewright.testing.handwritten import matmul
from tilewright.tune import tune_tir

ROUND = 4


def measured(seed: int, space: str, seconds: Callable[[int], float] = seconds_of_hash) -> list[int]:
    """The hashes of the candidates of two rounds, in their order."""
    runner = FakeRunner(seconds=seconds)
    tune_tir(
        matmul(32, 32, 32), "llvm -num-cores=2", max_trials_global=2 * ROUND,
        num_trials_per_iter=ROUND, builder=FakeBuilder(), runner=runner, space=space, seed=seed,
        console=False,
    )  # fmt: skip
    return runner.ran


@pytest.mark.parametrize("space", ["tilewright", "llvm"])
def test_the_same_measurements_give_the_same_candidates_in_the_same_order(space: str) -> None:
    assert measured(5, space) == measured(5, space)


@pytest.mark.parametrize("space", ["tilewright", "llvm"])
def test_other_measurements_leave_the_first_round_as_it_was(space: str) -> None:
    first = measured(5, space)
    other = measured(5, space, lambda shash: seconds_of_hash(~shash))
    assert first[:ROUND] == other[:ROUND]
    assert first != other


def test_another_seed_is_another_search() -> None:
    assert measured(5, "llvm") != measured(6, "llvm")
