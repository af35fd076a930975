"""`SpatialPass`: a block without a reduction that nobody took in becomes a parallel vector pass."""

from __future__ import annotations

from tilewright.ir import annotation_keys as keys
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.space.base import NotApplied, schedule_rules
from tilewright.space.conditions import UNUSUAL_BINDING, all_iters_spatial, is_root, is_tiled
from tilewright.space.cpu.cpu_rule import OneSketchRule
from tilewright.space.cpu.elementwise_loops import own_pass


@schedule_rules.register("SpatialPass")
class SpatialPass(OneSketchRule):
    """One parallel loop over rows, vectors along the last axis."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if is_root(sch.get_sref(block)):
            return self._rounding_passes(sch)
        return super().apply(sch, block)

    def _refusal(self, sch: Schedule, block: StmtSRef) -> str:
        if not block.loops:
            return "it has no loops"
        if not all_iters_spatial(block.block):
            return "it is a reduction"
        return "" if has_trivial_binding(block) else UNUSUAL_BINDING

    def _schedule(self, sch: Schedule, block: BlockRV) -> None:
        own_pass(sch, block)

    def _rounding_passes(self, sch: Schedule) -> list[Schedule]:
        """Schedule blocks that a rule has made, and that no other one took in."""
        done = sch
        for sref in list(sch.state.infos):
            if keys.ROUNDING in sref.block.annotations and not is_tiled(sref):
                [done] = self.apply(done, done.get_block(sref.name))
        return NotApplied(sch, "it is the root block") if done is sch else [done]
