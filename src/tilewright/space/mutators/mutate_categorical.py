"""`MutateCategorical`: another choice where a rule chose from a list of its own."""

from __future__ import annotations

from tilewright.ir import annotation_keys as keys
from tilewright.schedule import Trace
from tilewright.space.base import mutators
from tilewright.space.mutators import decisions

_OF_OTHERS = (keys.COOPERATIVE_FETCH, keys.UNROLL_EXPLICIT, keys.UNROLL_IMPLICIT)


@mutators.register("MutateCategorical")
class MutateCategorical(decisions.RedrawMutator):
    """Draw again one of the categorical numbers that no other mutator takes care of.

    Rules that know which tile sizes make sense list them instead of sampling divisors.
    """

    def draws(self, trace: Trace) -> list[decisions.Draw]:
        taken = set(decisions.draws_behind(trace, _OF_OTHERS))
        draws = decisions.categorical_draws(trace).values()
        return [draw for draw in draws if decisions.has_choice(draw) and draw not in taken]
