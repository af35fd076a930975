"""`MutateThreadBinding`: another number of threads for a loop that was split for them."""

from __future__ import annotations

from typing import Any

from tilewright.schedule import Instruction, Trace
from tilewright.space.base import mutators
from tilewright.space.mutators.decisions import (
    RedrawMutator,
    categorical_draws,
    has_choice,
    main_part,
)


@mutators.register("MutateThreadBinding")
class MutateThreadBinding(RedrawMutator):
    """Draw again how many threads share a loop, where that number was drawn from a list."""

    def draws(self, trace: Trace) -> list[Instruction]:
        """Of numbers by which a loop was split whose inner half is bound to threadIdx.x."""
        drawn = categorical_draws(trace)
        by_inner_loop: dict[Any, Instruction] = {}
        found: list[Instruction] = []
        for inst in main_part(trace):
            match inst.primitive.kind, inst.inputs:
                case "Split", (_, None, factor) if factor in drawn:
                    by_inner_loop[inst.outputs[1]] = drawn[factor]
                case "Bind", (loop,) if inst.attrs[0] == "threadIdx.x" and loop in by_inner_loop:
                    found.append(by_inner_loop[loop])
        return [draw for draw in found if has_choice(draw)]
