"""Every strategy keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.search import (
    ArraySearch,
    ConstrainedSearch,
    DefaultSearch,
    EvolutionarySearch,
    ReplayFunc,
    ReplayTrace,
    SearchStrategy,
)
from tilewright.testing.conformance import search_strategy


def small_evolution() -> EvolutionarySearch:
    return EvolutionarySearch.frugal(population_size=8, init_min_unmeasured=4)


def constrained(kind: str) -> SearchStrategy:
    return ConstrainedSearch(kind, pop_num=8, iter_walks=1, select_num=8)


MAKERS: dict[str, Callable[[], SearchStrategy]] = {
    "replay-trace": lambda: ReplayTrace(max_fail_count=20),
    "replay-func": lambda: ReplayFunc(max_fail_count=20),
    "evolutionary": small_evolution,
    "evolutionary, nothing carried over": lambda: EvolutionarySearch(
        population_size=8, init_min_unmeasured=8, genetic_num_iters=1
    ),
    "arrays": lambda: ArraySearch(population_size=32, generations=1),
    "default": lambda: DefaultSearch(evolutionary=small_evolution()),
    "cga": lambda: constrained("cga"),
    "idea": lambda: constrained("idea"),
    "sa": lambda: constrained("sa"),
}


@pytest.mark.parametrize("check", search_strategy.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", MAKERS)
def test_keeps_the_contract(
    name: str, check: Callable[[search_strategy.MakeStrategy], None]
) -> None:
    check(MAKERS[name])
