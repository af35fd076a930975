"""`MutateComputeLocation`: another place to compute a block at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.ir import IRModule
from tilewright.schedule import Instruction, Schedule, Trace
from tilewright.schedule.primitives.sample_compute_location import (
    SampleComputeLocation,
    compute_locations,
)
from tilewright.schedule.trace.instruction import is_step
from tilewright.schedule.trace.random import RandomEngine
from tilewright.space.base import Mutator, TaskContext, mutators
from tilewright.space.mutators.decisions import main_part


@mutators.register("MutateComputeLocation")
class MutateComputeLocation(Mutator):
    """Choose another of the places that were open when a block was placed."""

    def __init__(self) -> None:
        self.mod: IRModule | None = None

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        self.mod = context.mod

    def apply(self, trace: Trace, seed: int) -> Trace | None:
        engine = RandomEngine(seed)
        if not any(is_step(inst, SampleComputeLocation) for inst in main_part(trace)):
            return None
        places_of = self._other_places(trace, engine.fork_seed())
        open_places = [found for found in places_of if found[1]]
        if not open_places:
            return None
        inst, places = open_places[engine.integer(0, len(open_places))]
        place = places[engine.integer(0, len(places))]
        return trace.with_decision(inst, place, remove_postproc=True)

    def _other_places(self, trace: Trace, seed: int) -> list[tuple[Instruction, list[int]]]:
        """Where else each block could have gone, found by going through the trace again."""
        if self.mod is None:
            raise ScheduleError(
                "MutateComputeLocation does not know the program; "
                "call _initialize_with_tune_context first"
            )
        sch = Schedule(self.mod, seed=seed, error_render_level="none")
        found: list[tuple[Instruction, list[int]]] = []

        def look(
            inst: Instruction, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
        ) -> Any:
            if is_step(inst, SampleComputeLocation):
                (block,) = inputs
                places = compute_locations(sch.state, sch.get_sref(block))
                found.append((inst, [place for place in places if place != decision]))
            return decision

        trace.apply_to_schedule(sch, remove_postproc=True, decision_provider=look)
        return found
