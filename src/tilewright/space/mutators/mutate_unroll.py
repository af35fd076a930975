"""`MutateUnroll`: another limit for how far loops are unrolled."""

from __future__ import annotations

from tilewright.ir.annotation_keys import UNROLL_EXPLICIT, UNROLL_IMPLICIT
from tilewright.schedule import Trace
from tilewright.space.base import mutators
from tilewright.space.mutators.decisions import Draw, RedrawMutator, draws_behind


@mutators.register("MutateUnroll")
class MutateUnroll(RedrawMutator):
    """Draw again what a root block notes as its limit for unrolling."""

    def draws(self, trace: Trace) -> list[Draw]:
        return draws_behind(trace, (UNROLL_EXPLICIT, UNROLL_IMPLICIT))
