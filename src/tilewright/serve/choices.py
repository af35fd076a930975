"""The decisions of a step: the values that may be chosen instead of the one that was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tilewright.ir import IntImm
from tilewright.schedule import Instruction, Schedule
from tilewright.schedule.primitives.sample_categorical import SampleCategorical
from tilewright.schedule.primitives.sample_compute_location import (
    INLINE,
    ROOT,
    SampleComputeLocation,
    compute_locations,
)
from tilewright.schedule.primitives.sample_perfect_tile import (
    SamplePartitionedTile,
    SamplePerfectTile,
)

_PLACES = {INLINE: "inlined", ROOT: "at the root"}


class StepChoice(msgspec.Struct, omit_defaults=True):
    """A decision of a step: one of some options, or factors of an extent."""

    value: int | list[int] | None = None  # what was taken
    options: list[tuple[int, str]] = []  # values and their names
    parts: int = 0  # how many factors
    extent: int = 0  # their product


def choice_of(
    sch: Schedule, inst: Instruction, inputs: Sequence[object], attrs: Sequence[object]
) -> StepChoice | None:
    """The choice that a step has, on the program as it is before it; None: it takes no decision."""
    make = _CHOICES.get(inst.primitive)
    return None if make is None else make(sch, inst.primitive.from_row(inputs, attrs))


def _candidates(sch: Schedule, step: SampleCategorical) -> StepChoice:
    return StepChoice(options=[(place, str(value)) for place, value in enumerate(step.candidates)])


def _locations(sch: Schedule, step: SampleComputeLocation) -> StepChoice:
    found = compute_locations(sch.state, sch.get_sref(step.block))
    return StepChoice(
        options=[
            (place, _PLACES.get(place) or f"at loop {loop.loop.loop_var.name}")
            for place, loop in found.items()
        ]
    )


def _factors(sch: Schedule, step: SamplePerfectTile | SamplePartitionedTile) -> StepChoice:
    extent = sch.get_sref(step.loop).loop.extent
    return StepChoice(parts=step.n, extent=extent.value if isinstance(extent, IntImm) else 0)


_CHOICES: dict[type, Callable[[Schedule, Any], StepChoice]] = {
    SampleCategorical: _candidates,
    SampleComputeLocation: _locations,
    SamplePerfectTile: _factors,
    SamplePartitionedTile: _factors,
}
