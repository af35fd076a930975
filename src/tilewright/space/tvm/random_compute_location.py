"""`RandomComputeLocation`: a stage is computed where the search says: inline, at a loop, alone."""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.ir.annotation_keys import RANDOM_COMPUTE_PRODUCER
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.schedule.state.scope import child_blocks, loops_of
from tilewright.space.base import ScheduleRule, schedule_rules
from tilewright.space.conditions import in_root_scope, is_tiled


@schedule_rules.register("RandomComputeLocation")
class RandomComputeLocation(ScheduleRule):
    """Samples a place for each block that has consumers, and for the partial sums under it."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        if not self._is_movable(sch, sref):
            return [sch]
        blocks = [block]
        if sref.block.annotations.get(RANDOM_COMPUTE_PRODUCER):
            producers = sch.get_producers(block)
            if len(producers) != 1:
                raise ScheduleError(
                    f"block {sref.name!r} is annotated with {RANDOM_COMPUTE_PRODUCER!r}, which "
                    f"needs exactly one producer; it has {len(producers)}"
                )
            sch.unannotate(block, RANDOM_COMPUTE_PRODUCER)
            blocks += producers
        for moved in blocks:
            location = sch.sample_compute_location(moved)
            sch.compute_at(moved, location, preserve_unit_loops=True)
        return [sch]

    @staticmethod
    def _is_movable(sch: Schedule, block: StmtSRef) -> bool:
        """True for a stage of the function that stands alone under its loops and is read later."""
        if not in_root_scope(block) or is_tiled(block):
            return False
        loops = loops_of(block)
        if not loops or len(child_blocks(sch.state, loops[0])) != 1:
            return False
        return bool(neighbours(sch, block, before=False))
