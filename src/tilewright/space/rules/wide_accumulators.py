"""`WideAccumulators`: sums of 16-bit floats are added up in 32 bits, and rounded once.

A sum in float16 stops at 2048 ones: the next one is less than half of its last digit. Programs that
add up in a narrow type mean the sum, not that.
"""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.schedule import BlockRV, Schedule
from tilewright.schedule.conditions import is_reduction_block
from tilewright.space.annotations import ROUNDING
from tilewright.space.base import ScheduleRule, schedule_rules
from tilewright.space.conditions import is_root, is_tiled


@schedule_rules.register("WideAccumulators")
class WideAccumulators(ScheduleRule):
    """Gives reductions of narrow floats an accumulator of 32 bits."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if self.why_not(sch, block):
            return [sch]
        dtype = sch.get_sref(block).block.writes[0].buffer.dtype
        copy = sch.copy()
        try:
            rounding = copy.widen_accumulator(block, dtype.accumulator)
            copy.annotate(rounding, ROUNDING, 1)
        except ScheduleError:
            return [sch]
        return [copy]

    def why_not(self, sch: Schedule, block: BlockRV) -> str:
        """Why a block is left alone; empty if it is not."""
        sref = sch.get_sref(block)
        if is_root(sref):
            return "it is the root block"
        if is_tiled(sref):
            return "another rule has taken care of it already"
        if len(sref.block.writes) != 1 or not is_reduction_block(sch.state, sref):
            return "it is no reduction to one result"
        dtype = sref.block.writes[0].buffer.dtype
        if not dtype.is_float or dtype.accumulator == dtype:
            return f"{dtype} is wide enough to add up in"
        return ""
