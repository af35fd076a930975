"""`InlineConstantScalars`: a block that only stores one constant becomes part of its consumers."""

from __future__ import annotations

from tilewright.schedule import BlockRV, Schedule
from tilewright.schedule.analysis import writes_output
from tilewright.space.base import ScheduleRule, schedule_rules
from tilewright.space.conditions import is_root


@schedule_rules.register("InlineConstantScalars")
class InlineConstantScalars(ScheduleRule):
    """Inlines blocks that read nothing and write one scalar."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        stmt = sref.block
        constant_scalar = (
            not stmt.reads and len(stmt.writes) == 1 and stmt.writes[0].buffer.ndim == 0
        )
        if constant_scalar and not is_root(sref) and not writes_output(sref):
            sch.compute_inline(block)
        return [sch]
