"""`RandomComputeLocation`: a stage is computed where the search says: inline, at a loop, alone."""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.ir import annotation_keys as keys
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.space.base import NotApplied, ScheduleRule, schedule_rules
from tilewright.space.conditions import in_root_scope, why_not_free


@schedule_rules.register("RandomComputeLocation")
class RandomComputeLocation(ScheduleRule):
    """Samples a place for each block that has consumers, and for the partial sums under it."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        if reason := _why_not_movable(sch, sref):
            return NotApplied(sch, reason)
        blocks = [block]
        if sref.block.annotations.get(keys.RANDOM_COMPUTE_PRODUCER):
            producers = sch.get_producers(block)
            if len(producers) != 1:
                raise ScheduleError(
                    f"block {sref.name!r} is annotated with {keys.RANDOM_COMPUTE_PRODUCER!r}, "
                    f"which needs exactly one producer; it has {len(producers)}"
                )
            sch.unannotate(block, keys.RANDOM_COMPUTE_PRODUCER)
            blocks += producers
        for moved in blocks:
            location = sch.sample_compute_location(moved)
            sch.compute_at(moved, location, preserve_unit_loops=True)
        return [sch]


def _why_not_movable(sch: Schedule, block: StmtSRef) -> str:
    """Why a block is no stage that stands alone under its loops and is read later."""
    loops = block.loops
    if taken := why_not_free(block):
        return taken
    if not in_root_scope(block):
        return "it is part of another block"
    if not loops:
        return "it has no loops"
    if not neighbours(sch, block, before=False):
        return "no other block reads its result"
    alone = len(sch.state.child_blocks(loops[0])) == 1
    return "" if alone else "it shares its loops with another block"
