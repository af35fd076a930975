"""`InlineConstantScalars`: a block that only stores one constant becomes part of its consumers."""

from __future__ import annotations

from tilewright.schedule import BlockRV, Schedule
from tilewright.schedule.analysis import writes_output
from tilewright.space.base import NotApplied, ScheduleRule, schedule_rules
from tilewright.space.conditions import is_root


@schedule_rules.register("InlineConstantScalars")
class InlineConstantScalars(ScheduleRule):
    """Inlines blocks that read nothing and write one scalar."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        stmt = sref.block
        if is_root(sref):
            return NotApplied(sch, "it is the root block")
        if stmt.reads or len(stmt.writes) != 1 or stmt.writes[0].buffer.ndim != 0:
            return NotApplied(sch, "it is not a constant scalar")
        if writes_output(sref):
            return NotApplied(sch, "it writes an output of the function")
        sch.compute_inline(block)
        return [sch]
