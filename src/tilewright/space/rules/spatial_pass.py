"""`SpatialPass`: a block without a reduction that nobody took in becomes a parallel vector pass."""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.schedule import BlockRV, Schedule
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.schedule.scope import loops_of
from tilewright.space.base import ScheduleRule, schedule_rules
from tilewright.space.conditions import all_iters_spatial, is_root, is_tiled
from tilewright.space.rules.passes import own_pass


@schedule_rules.register("SpatialPass")
class SpatialPass(ScheduleRule):
    """One parallel loop over rows, vectors along the last axis."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        if is_root(sref) or is_tiled(sref) or not loops_of(sref):
            return [sch]
        if not all_iters_spatial(sref.block) or not has_trivial_binding(sref):
            return [sch]
        copy = sch.copy()
        try:
            own_pass(copy, block)
        except ScheduleError:
            return [sch]
        return [copy]
