"""`InWinogradTiles`: convolutions of 3 x 3 windows may be computed with fewer products.

The transforms of data, weights and results cost additions and memory, so the direct convolution
competes. Weights are transformed in every call. Where they are bound, models choose between ways to
compute a convolution themselves (`model/alternatives.py`), and may be told not to.
"""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.nest.block_nest import BlockNest
from tilewright.schedule import BlockRV, Schedule
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.space.base import NotApplied, schedule_rules
from tilewright.space.conditions import UNUSUAL_BINDING, why_not_free
from tilewright.space.cpu.cpu_rule import CpuRule
from tilewright.space.layout_free import has_bound_weights

TILE_SIZES = (2, 4)
FEWEST_CHANNELS = 16  # with fewer, transforms cost as much as products


@schedule_rules.register("InWinogradTiles")
class InWinogradTiles(CpuRule):
    """One sketch for each size of tiles, and the convolution as it is."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        if reason := why_not_free(sref):
            return NotApplied(sch, reason)
        if not has_trivial_binding(sref):
            return NotApplied(sch, UNUSUAL_BINDING)
        if has_bound_weights(sch.mod[sch.state.function_of(sref)]):
            return NotApplied(sch, "its weights are bound, and models choose the way themselves")
        nest = BlockNest(sref.block)
        made = []
        if nest.depth and (nest.extents[nest.depth[-1]] or 0) >= FEWEST_CHANNELS:
            for size in TILE_SIZES:
                copy = sch.copy()
                try:
                    copy.winograd(block, size)
                except ScheduleError:
                    continue
                made.append(copy)
        if not made:
            return NotApplied(sch, "it is not a convolution of 3 x 3 windows in whole tiles")
        return [*made, sch]
