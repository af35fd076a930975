"""Reduction loops as one innermost loop, as factoring and cross-thread reductions take them."""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.ir import IterType
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.schedule.conditions.checks import loop_iter_type


def reorder_and_fuse_reduction_loops(sch: Schedule, block: BlockRV) -> tuple[LoopRV, int]:
    """Bring the reduction loops of a block inside all others and fuse them.

    Returns the fused loop and how many loops are around it.
    """
    loops = sch.get_loops(block)
    is_reduction = {
        loop: loop_iter_type(sch.state, sch.get_sref(loop)) is IterType.COMM_REDUCE
        for loop in loops
    }
    ordered = sorted(loops, key=is_reduction.__getitem__)
    spatial = [loop for loop in loops if not is_reduction[loop]]
    reduction = ordered[len(spatial) :]
    if not reduction:
        raise ScheduleError(f"block {sch.get_sref(block).name!r} has no reduction loop")
    if ordered != loops:
        sch.reorder(*ordered)
    fused = reduction[0] if len(reduction) == 1 else sch.fuse(*reduction)
    return fused, len(spatial)
