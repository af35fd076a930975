"""`MutateCategorical`: another choice where a rule chose from a list of its own."""

from __future__ import annotations

from tilewright.ir.annotation_keys import COOPERATIVE_FETCH, UNROLL_EXPLICIT, UNROLL_IMPLICIT
from tilewright.schedule import Trace
from tilewright.schedule.trace.random import RandomEngine
from tilewright.space.base import Mutator, mutators
from tilewright.space.mutators.decisions import (
    categorical_draws,
    draws_behind,
    has_choice,
    with_another_category,
)

_OF_OTHERS = (COOPERATIVE_FETCH, UNROLL_EXPLICIT, UNROLL_IMPLICIT)


@mutators.register("MutateCategorical")
class MutateCategorical(Mutator):
    """Draw again one of the categorical numbers that no other mutator takes care of.

    Rules that know which tile sizes make sense list them instead of sampling divisors.
    """

    def apply(self, trace: Trace, seed: int) -> Trace | None:
        engine = RandomEngine(seed)
        taken = set(draws_behind(trace, _OF_OTHERS))
        draws = [
            draw
            for draw in categorical_draws(trace).values()
            if has_choice(draw) and draw not in taken
        ]
        if not draws:
            return None
        return with_another_category(trace, engine, draws[engine.integer(0, len(draws))])
