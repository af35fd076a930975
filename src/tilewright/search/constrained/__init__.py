"""Strategies that search in the solutions of a constraint problem, one a file, by name."""

from tilewright.search.constrained import (  # noqa: F401  (they register themselves)
    cga,
    crand,
    descent,
    genetic,
    idea,
    rcga,
    sdga,
    simulated_annealing,
    srga,
)
from tilewright.search.constrained.base import (
    ConstrainedSettings as ConstrainedSettings,
    ConstrainedStrategy as ConstrainedStrategy,
    constrained_strategies as constrained_strategies,
)
