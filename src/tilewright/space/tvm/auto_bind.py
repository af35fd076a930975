"""`AutoBind`: blocks that no other rule gave to GPU threads are spread over them."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.schedule import BlockRV, Schedule
from tilewright.space.base import NotApplied, ScheduleRule, TaskContext, schedule_rules
from tilewright.space.gpu.gpu_limits import MAX_THREADS, required_gpu_number
from tilewright.space.gpu.thread_binding import bind_block_thread_idx, sampled_factor

THREAD_EXTENTS = (32, 64, 128, 256, 512, 1024)


@schedule_rules.register("AutoBind")
class AutoBind(ScheduleRule):
    """Bind the outer spatial loops of a block to blockIdx.x and threadIdx.x.

    `thread_extents` are the numbers of threads to choose from. The target says how many threads a
    block may have, `max_threads_per_block` counts only until the rule has seen one.
    """

    def __init__(
        self,
        max_threadblocks: int = 256,
        thread_extents: Sequence[int] | None = None,
        max_threads_per_block: int = -1,
    ) -> None:
        self.max_threadblocks = max_threadblocks
        self.thread_extents = tuple(THREAD_EXTENTS if thread_extents is None else thread_extents)
        self.max_threads_per_block = max_threads_per_block

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        self.max_threads_per_block = required_gpu_number(context.target, MAX_THREADS, "AutoBind")

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        chooser = sampled_factor(sch, self.thread_extents)
        limits = self.max_threadblocks, self.max_threads_per_block
        reason = bind_block_thread_idx(sch, block, *limits, chooser)
        return NotApplied(sch, reason) if reason else [sch]
