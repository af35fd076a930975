"""`AddRFactor`: split a long reduction into partial ones that can run in parallel."""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.ir import IterType, annotation_keys as keys
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.schedule.conditions.checks import loop_iter_type
from tilewright.space.base import NotApplied, ScheduleRule, TaskContext, schedule_rules
from tilewright.space.conditions import why_not_split_reduction
from tilewright.space.tvm.parallelize_vectorize_unroll import max_parallel_extent


@schedule_rules.register("AddRFactor")
class AddRFactor(ScheduleRule):
    """Offers, besides the block as it is, partial sums over either part of its split reduction."""

    def __init__(
        self, max_jobs_per_core: int = 16, max_innermost_factor: int | None = None
    ) -> None:
        self.max_jobs_per_core = max_jobs_per_core
        self.max_innermost_factor = -1 if max_innermost_factor is None else max_innermost_factor
        self.max_parallel_extent = -1

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        self.max_parallel_extent = max_parallel_extent(context, self.max_jobs_per_core)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref, extent = sch.get_sref(block), self.max_parallel_extent
        if reason := why_not_split_reduction(sch.state, sref, extent):
            return NotApplied(sch, reason)
        untouched = reseeded_copy(sch)
        fused, num_spatial = reorder_and_fuse_reduction_loops(sch, block)
        factors = sch.sample_perfect_tile(fused, 2, self.max_innermost_factor)
        offered = (
            self._partial(sch, block, loop, num_spatial) for loop in sch.split(fused, factors)
        )
        return [*(made for made in offered if made is not None), untouched]

    @staticmethod
    def _partial(sch: Schedule, block: BlockRV, loop: LoopRV, factor_axis: int) -> Schedule | None:
        made = reseeded_copy(sch)
        try:
            partial = made.rfactor(loop, factor_axis)
        except ScheduleError:  # not every reduction can be split: a reason not to offer it
            return None
        made.get_loops(partial)
        # Partial results find their own place later, just like the block itself.
        made.annotate(block, keys.RANDOM_COMPUTE_PRODUCER, 1)
        return made


def reseeded_copy(sch: Schedule) -> Schedule:
    """A copy whose random numbers follow neither from the original's nor from other copies'."""
    made = sch.copy()
    made.seed(sch.fork_seed())
    return made


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
