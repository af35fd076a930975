"""`WideAccumulators`: sums of 16-bit floats are added up in 32 bits, and rounded once.

A sum in float16 stops at 2048 ones: the next one is less than half of its last digit. Programs that
add up in a narrow type mean the sum, not that.
"""

from __future__ import annotations

from tilewright.ir import annotation_keys as keys
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.conditions.checks import is_reduction_block
from tilewright.space.base import schedule_rules
from tilewright.space.cpu.cpu_rule import OneSketchRule


@schedule_rules.register("WideAccumulators")
class WideAccumulators(OneSketchRule):
    """Gives reductions of narrow floats an accumulator of 32 bits."""

    def _refusal(self, sch: Schedule, block: StmtSRef) -> str:
        if len(block.block.writes) != 1 or not is_reduction_block(sch.state, block):
            return "it is not a reduction to one result"
        dtype = block.block.writes[0].buffer.dtype
        if not dtype.is_float or dtype.accumulator == dtype:
            return f"{dtype} is wide enough to add up in"
        return ""

    def _schedule(self, sch: Schedule, block: BlockRV) -> None:
        dtype = sch.get_sref(block).block.writes[0].buffer.dtype
        sch.annotate(sch.widen_accumulator(block, dtype.accumulator), keys.ROUNDING, 1)
