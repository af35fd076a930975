"""`MutateUnroll`: another limit for how far loops are unrolled."""

from __future__ import annotations

from tilewright.ir import annotation_keys as keys
from tilewright.schedule import Trace
from tilewright.space.base import mutators
from tilewright.space.mutators.decisions import Draw, RedrawMutator, draws_behind


@mutators.register("MutateUnroll")
class MutateUnroll(RedrawMutator):
    """Draw again what a root block notes as its limit for unrolling."""

    def draws(self, trace: Trace) -> list[Draw]:
        return draws_behind(trace, (keys.UNROLL_EXPLICIT, keys.UNROLL_IMPLICIT))
