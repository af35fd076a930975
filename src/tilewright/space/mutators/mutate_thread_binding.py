"""`MutateThreadBinding`: another number of threads for a loop that was split for them."""

from __future__ import annotations

from tilewright.schedule import Trace
from tilewright.schedule.primitives.loop_kind import Bind
from tilewright.schedule.primitives.split import Split
from tilewright.space.base import mutators
from tilewright.space.mutators import decisions


@mutators.register("MutateThreadBinding")
class MutateThreadBinding(decisions.RedrawMutator):
    """Draw again how many threads share a loop, where that number was drawn from a list."""

    def draws(self, trace: Trace) -> list[decisions.Draw]:
        """Of numbers by which a loop was split whose inner half is bound to threadIdx.x."""
        drawn = decisions.categorical_draws(trace)
        by_inner_loop: dict[object, decisions.Draw] = {}
        found: list[decisions.Draw] = []
        for inst in decisions.main_part(trace):
            match inst.step:
                case Split(factors=(None, factor)) if factor in drawn:
                    by_inner_loop[inst.outputs[1]] = drawn[factor]
                case Bind(loop=loop, thread_axis="threadIdx.x") if loop in by_inner_loop:
                    found.append(by_inner_loop[loop])
        return [draw for draw in found if decisions.has_choice(draw)]
