"""The open decisions of a sketch, and how many ways there are to take each."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.ir import IntImm, IRModule
from tilewright.schedule import Instruction, Schedule, Trace
from tilewright.schedule.primitives.sample_categorical import SampleCategorical
from tilewright.schedule.primitives.sample_compute_location import (
    SampleComputeLocation,
    compute_locations,
)
from tilewright.schedule.primitives.sample_perfect_tile import (
    SamplePartitionedTile,
    SamplePerfectTile,
)
from tilewright.schedule.trace.text import without_probabilities
from tilewright.space.mutators.mutate_tile_size import divisors


@dataclass(frozen=True)
class Decision:
    """One step of a sketch that samples."""

    step: str  # as Python, without probabilities
    choices: int


def decisions_of(mod: IRModule, sketch: Schedule) -> list[Decision]:
    """The decisions in order; later ones are counted for the values that earlier ones have now."""
    trace = sketch.trace
    if trace is None:
        return []
    sch = Schedule(mod)
    choices: dict[int, int] = {}
    steps = iter(range(len(trace.insts)))

    def count(
        inst: Instruction, inputs: Sequence[object], attrs: Sequence[object], decision: object
    ) -> object:
        position = next(steps)
        counter = _COUNTERS.get(inst.primitive)
        if counter is not None:
            choices[position] = counter(sch, inst.primitive.from_row(inputs, attrs))
        return decision

    trace.apply_to_schedule(sch, remove_postproc=False, decision_provider=count)
    lines = [without_probabilities(line) for line in Trace(trace.insts).as_python()]
    return [Decision(lines[position], number) for position, number in choices.items()]


def points_of(decisions: Sequence[Decision]) -> int:
    """How many candidates a sketch stands for, if all decisions were independent."""
    return math.prod(decision.choices for decision in decisions)


def _perfect_tiles(sch: Schedule, step: SamplePerfectTile) -> int:
    extent = sch.get_sref(step.loop).loop.extent
    limit = step.max_innermost_factor
    return count_tiles(extent.value, step.n, limit) if isinstance(extent, IntImm) else 1


def _partitioned_tiles(sch: Schedule, step: SamplePartitionedTile) -> int:
    n, position, factor = step.n, step.partition_pos, step.innerpart_factor
    extent = sch.get_sref(step.loop).loop.extent
    if not isinstance(extent, IntImm) or extent.value % factor:
        return 1
    whole = extent.value
    inner = [size for size in divisors(whole) if size % factor == 0]
    return sum(
        count_tiles(whole // size, position) * count_tiles(size, n - position) for size in inner
    )


@functools.lru_cache(maxsize=4096)
def count_tiles(extent: int, parts: int, limit: int = -1) -> int:
    """Ways to write `extent` as a product of `parts` factors, the last of them at most `limit`."""
    if parts == 1:
        return int(limit == -1 or extent <= limit)
    last = [size for size in divisors(extent) if limit == -1 or size <= limit]
    return sum(count_tiles(extent // size, parts - 1) for size in last)


_COUNTERS: dict[type, Callable[[Schedule, Any], int]] = {
    SampleCategorical: lambda sch, step: len(step.candidates),
    SampleComputeLocation: lambda sch, step: len(
        compute_locations(sch.state, sch.get_sref(step.block))
    ),
    SamplePerfectTile: _perfect_tiles,
    SamplePartitionedTile: _partitioned_tiles,
}
