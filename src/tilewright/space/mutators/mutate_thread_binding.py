"""`MutateThreadBinding`: another number of threads for a loop that was split for them."""

from __future__ import annotations

from typing import Any

from tilewright.schedule import Instruction, Trace
from tilewright.schedule.trace.random import RandomEngine
from tilewright.space.base import Mutator, mutators
from tilewright.space.mutators.decisions import (
    categorical_draws,
    has_choice,
    main_part,
    with_another_category,
)


@mutators.register("MutateThreadBinding")
class MutateThreadBinding(Mutator):
    """Draw again how many threads share a loop, where that number was drawn from a list."""

    def apply(self, trace: Trace, seed: int) -> Trace | None:
        engine = RandomEngine(seed)
        draws = _draws_of_threads(trace)
        if not draws:
            return None
        return with_another_category(trace, engine, draws[engine.integer(0, len(draws))])


def _draws_of_threads(trace: Trace) -> list[Instruction]:
    """The draws of numbers by which a loop was split whose inner half is bound to threadIdx.x."""
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
