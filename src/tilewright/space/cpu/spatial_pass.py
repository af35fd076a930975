"""`SpatialPass`: a block without a reduction that nobody took in becomes a parallel vector pass."""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.ir.annotation_keys import ROUNDING
from tilewright.schedule import BlockRV, Schedule
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.schedule.state.scope import loops_of
from tilewright.space.base import ScheduleRule, schedule_rules
from tilewright.space.conditions import all_iters_spatial, is_root, is_tiled
from tilewright.space.cpu.elementwise_loops import own_pass


@schedule_rules.register("SpatialPass")
class SpatialPass(ScheduleRule):
    """One parallel loop over rows, vectors along the last axis."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        if is_root(sref):
            return self._rounding_passes(sch)
        if is_tiled(sref) or not loops_of(sref):
            return [sch]
        if not all_iters_spatial(sref.block) or not has_trivial_binding(sref):
            return [sch]
        copy = sch.copy()
        try:
            own_pass(copy, block)
        except ScheduleError:
            return [sch]
        return [copy]

    def _rounding_passes(self, sch: Schedule) -> list[Schedule]:
        """Blocks that a rule has made, and that no other one took in."""
        for sref in list(sch.state.infos):
            if ROUNDING in sref.block.annotations and not is_tiled(sref):
                [sch] = self.apply(sch, sch.get_block(sref.name))
        return [sch]
