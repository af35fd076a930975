"""`MutateCategorical`: another choice where a rule chose from a list of its own."""

from __future__ import annotations

from tilewright.ir.annotation_keys import COOPERATIVE_FETCH, UNROLL_EXPLICIT, UNROLL_IMPLICIT
from tilewright.schedule import Trace
from tilewright.space.base import mutators
from tilewright.space.mutators.decisions import (
    Draw,
    RedrawMutator,
    categorical_draws,
    draws_behind,
    has_choice,
)

_OF_OTHERS = (COOPERATIVE_FETCH, UNROLL_EXPLICIT, UNROLL_IMPLICIT)


@mutators.register("MutateCategorical")
class MutateCategorical(RedrawMutator):
    """Draw again one of the categorical numbers that no other mutator takes care of.

    Rules that know which tile sizes make sense list them instead of sampling divisors.
    """

    def draws(self, trace: Trace) -> list[Draw]:
        taken = set(draws_behind(trace, _OF_OTHERS))
        draws = categorical_draws(trace).values()
        return [draw for draw in draws if has_choice(draw) and draw not in taken]
