"""Every mutator keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.space.base import Mutator
from tilewright.space.mutators import (
    MutateCategorical,
    MutateComputeLocation,
    MutateParallel,
    MutateTileSize,
    MutateUnroll,
)
from tilewright.testing.conformance import mutator

MAKERS: dict[str, Callable[[], Mutator]] = {
    "tile_size": MutateTileSize,
    "unroll": MutateUnroll,
    "parallel": lambda: MutateParallel(max_jobs_per_core=16),
    "compute_location": MutateComputeLocation,
    "categorical": MutateCategorical,
}


@pytest.mark.parametrize("check", mutator.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", MAKERS)
def test_keeps_the_contract(name: str, check: Callable[[mutator.MakeMutator], None]) -> None:
    check(MAKERS[name])
