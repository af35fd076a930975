"""`RewriteUnboundBlock`: blocks that are left without GPU threads get as many as they can use."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tilewright.nest.kernels import tag_of
from tilewright.schedule import Schedule, ScheduleState, StmtSRef
from tilewright.space.base import Postproc, TaskContext, postprocs
from tilewright.space.gpu.gpu_limits import MAX_THREADS, required_gpu_number
from tilewright.space.gpu.thread_binding import bind_block_thread_idx

MOST_BLOCKS = 256  # of threads; all of them stride over longer loops


@postprocs.register("RewriteUnboundBlock")
class RewriteUnboundBlock(Postproc):
    """Bind every block that is not under loops bound to both blockIdx and threadIdx."""

    def __init__(self, max_threadblocks: int = MOST_BLOCKS) -> None:
        self.max_threadblocks = max_threadblocks
        self.max_threads_per_block = -1

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        name = type(self).__name__
        self.max_threads_per_block = required_gpu_number(context.target, MAX_THREADS, name)

    def apply(self, sch: Schedule) -> bool:
        bind_unbound_blocks(sch, self.max_threads_per_block, self.max_threadblocks)
        return True


def bind_unbound_blocks(sch: Schedule, threads: int, max_threadblocks: int = MOST_BLOCKS) -> None:
    """Share the loops of blocks that are on no threads, as many as they and the machine allow."""
    unbound = [
        (block.name, function)
        for function, root in sch.state.roots.items()
        for block in _unbound_below(sch.state, root)
    ]
    for name, function in unbound:
        block = sch.get_block(name, function)
        chooser = functools.partial(min, threads)
        bind_block_thread_idx(sch, block, max_threadblocks, threads, chooser)


def _unbound_below(state: ScheduleState, scope: StmtSRef) -> Iterator[StmtSRef]:
    """The outermost blocks below `scope` that are not under both kinds of thread axes."""
    for block in state.child_blocks(scope):
        if not _has_threads(block):
            yield block
        else:
            yield from _unbound_below(state, block)


def _has_threads(block: StmtSRef) -> bool:
    tags = []
    above = block.parent
    while above is not None:
        if above.is_loop:
            tags.append(tag_of(above.loop))
        above = above.parent
    return all(any(tag.startswith(axis) for tag in tags) for axis in ("blockIdx", "threadIdx"))
