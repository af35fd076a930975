"""`MutateUnroll`: another limit for how far loops are unrolled."""

from __future__ import annotations

from tilewright.ir.annotation_keys import UNROLL_EXPLICIT, UNROLL_IMPLICIT
from tilewright.schedule import Trace
from tilewright.schedule.trace.random import RandomEngine
from tilewright.space.base import Mutator, mutators
from tilewright.space.mutators.decisions import draws_behind, with_another_category


@mutators.register("MutateUnroll")
class MutateUnroll(Mutator):
    """Draw again what a root block notes as its limit for unrolling."""

    def apply(self, trace: Trace, seed: int) -> Trace | None:
        engine = RandomEngine(seed)
        draws = draws_behind(trace, (UNROLL_EXPLICIT, UNROLL_IMPLICIT))
        if not draws:
            return None
        return with_another_category(trace, engine, draws[engine.integer(0, len(draws))])
