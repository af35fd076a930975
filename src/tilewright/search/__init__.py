"""Search strategies, behind ask and tell; importing this package makes them known by name."""

from tilewright.search.array_search import ArraySearch as ArraySearch
from tilewright.search.base import (
    SearchStrategy as SearchStrategy,
    search_strategies as search_strategies,
)
from tilewright.search.constrained_search import ConstrainedSearch as ConstrainedSearch
from tilewright.search.default_search import DefaultSearch as DefaultSearch
from tilewright.search.evolutionary_search import EvolutionarySearch as EvolutionarySearch
from tilewright.search.random_search import ReplayFunc as ReplayFunc, ReplayTrace as ReplayTrace
from tilewright.search.replayer import SearchStatistics as SearchStatistics
