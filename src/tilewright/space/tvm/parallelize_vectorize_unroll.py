"""`ParallelizeVectorizeUnroll`: note on the root how far loops may run in parallel and unroll.

What the notes do is up to the post-processor RewriteParallelVectorizeUnroll.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import TuneError
from tilewright.ir import annotation_keys as keys
from tilewright.schedule import BlockRV, Schedule
from tilewright.space.base import NotApplied, ScheduleRule, TaskContext, schedule_rules
from tilewright.space.conditions import is_root, is_spatial_function
from tilewright.target import Target


@schedule_rules.register("ParallelizeVectorizeUnroll")
class ParallelizeVectorizeUnroll(ScheduleRule):
    """Annotates root blocks; -1 switches parallel loops or vectors off, no steps the unrolling."""

    def __init__(
        self,
        max_jobs_per_core: int = 16,
        max_vectorize_extent: int = 16,
        unroll_max_steps: Sequence[int] | None = None,
        unroll_explicit: bool = True,
    ) -> None:
        self.max_jobs_per_core = max_jobs_per_core
        self.max_vectorize_extent = max_vectorize_extent
        self.unroll_max_steps = list(unroll_max_steps or ())
        self.unroll_explicit = unroll_explicit
        self.max_parallel_extent = -1

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        self.max_parallel_extent = max_parallel_extent(context, self.max_jobs_per_core)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        root = sch.get_sref(block)
        if not is_root(root):
            return NotApplied(sch, "it annotates root blocks only")
        unrolls = bool(self.unroll_max_steps) and not is_spatial_function(sch.state, root)
        if self.max_jobs_per_core != -1:
            sch.annotate(block, keys.PARALLEL, self.max_parallel_extent)
        if self.max_vectorize_extent != -1:
            sch.annotate(block, keys.VECTORIZE, self.max_vectorize_extent)
        if unrolls:
            steps = self.unroll_max_steps
            chosen = sch.sample_categorical(steps, [1.0 / len(steps)] * len(steps))
            key = keys.UNROLL_EXPLICIT if self.unroll_explicit else keys.UNROLL_IMPLICIT
            sch.annotate(block, key, chosen)
        return [sch]


def max_parallel_extent(context: TaskContext, max_jobs_per_core: int) -> int:
    """Jobs for all cores of the target together; -1 if the jobs of a core are not limited."""
    if max_jobs_per_core == -1:
        return -1
    target: Target | None = context.target
    if target is None:
        raise TuneError("this schedule rule needs a target; give one to the TuneContext")
    return target.num_cores * max_jobs_per_core
