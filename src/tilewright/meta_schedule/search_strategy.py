"""Search strategies."""

from tilewright.records import MeasureCandidate as MeasureCandidate
from tilewright.search import (
    EvolutionarySearch as EvolutionarySearch,
    ReplayFunc as ReplayFunc,
    ReplayTrace as ReplayTrace,
    SearchStrategy as SearchStrategy,
    search_strategies as search_strategies,
)

PySearchStrategy = SearchStrategy
create = SearchStrategy.create
