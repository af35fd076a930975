"""Binding of loops to GPU threads: the outer spatial loops of a block are shared among them.

Used by the rule `AutoBind`, where the number of threads is sampled, and by the post-processor
`RewriteUnboundBlock`, where it is as large as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.errors import ScheduleError
from tilewright.ir import ForKind
from tilewright.nest.block_loops import NestLoop, first_not_spatial, nest_above
from tilewright.nest.kernels import tag_of
from tilewright.schedule import BlockRV, ExprRV, LoopRV, Schedule
from tilewright.space.conditions import constant_extent, why_not_free

# The number of threads for a loop, given how many it can use at most.
FactorChooser = Callable[[int], int | ExprRV]


def sampled_factor(sch: Schedule, thread_extents: Sequence[int]) -> FactorChooser:
    """One of `thread_extents`, by chance."""

    def choose(extent: int) -> int | ExprRV:
        candidates = [threads for threads in thread_extents if threads <= extent]
        if not candidates:
            return extent
        if len(candidates) == 1:
            return candidates[0]
        chances = [1.0 / len(candidates)] * len(candidates)
        return sch.sample_categorical(candidates, chances)

    return choose


def _count_fusible(nest: Sequence[NestLoop]) -> int:
    """How many of the outermost loops can become one."""
    for index, loop in enumerate(nest):
        if loop.stmt.kind is not ForKind.SERIAL:
            return index
        if not loop.has_one_child:
            return index + 1
    return len(nest)


def bind_block_thread_idx(
    sch: Schedule,
    block: BlockRV,
    max_threadblocks: int,
    max_threads_per_block: int,
    choose_threads: FactorChooser,
) -> str:
    """Bind outer loops of a block to blockIdx.x and threadIdx.x, as far as they are not yet.

    Returns the reason if there is nothing to bind.
    """
    sref = sch.get_sref(block)
    if taken := why_not_free(sref):
        return taken
    nest = nest_above(sref)
    tags = [tag_of(loop.stmt) for loop in nest]
    thread_axis = next((n for n, tag in enumerate(tags) if tag.startswith("threadIdx")), -1)
    if any(tag.startswith("blockIdx") for tag in tags):
        if thread_axis >= 0:
            return "its loops run on threads already"
        raise ScheduleError(
            f"block {sref.name!r} is under a loop bound to blockIdx but under none bound to "
            "threadIdx; bind a loop inside it to threadIdx as well"
        )
    loops = sch.get_loops(block)
    spatial = first_not_spatial(nest)
    count = min(_count_fusible(nest), len(nest) if spatial is None else spatial)
    if spatial == 0 or not nest:
        # Without a spatial loop the whole block is the work of one block of threads.
        loops = [sch.add_unit_loop(loops[0] if loops else block)]
        count = 1
    elif thread_axis >= 0:
        count = min(count, thread_axis)
    if count == 0:
        return f"its outermost loop is {nest[0].stmt.kind.name.lower()} already"
    if thread_axis >= 0:
        sch.bind(sch.fuse(*sch.get_loops(block)[:count]), "blockIdx.x")
    else:
        fused = sch.fuse(*loops[:count])
        bind_spatial_loop(sch, fused, max_threadblocks, max_threads_per_block, choose_threads)
    return ""


def bind_spatial_loop(
    sch: Schedule,
    loop: LoopRV,
    max_threadblocks: int,
    max_threads_per_block: int,
    choose_threads: FactorChooser,
) -> list[LoopRV]:
    """Share a spatial loop among threads; what is left of it, outermost first.

    A loop with more iterations than threads may exist is strided over by all of them.
    """
    size = constant_extent(sch.get_sref(loop))
    if size is not None and size <= max_threadblocks * max_threads_per_block:
        threads = choose_threads(max(1, min(size, max_threads_per_block)))
        pieces = sch.split(loop, [None, threads])
        outer, inner = pieces
    else:
        serial, outer, inner = sch.split(loop, [None, max_threadblocks, max_threads_per_block])
        sch.reorder(outer, inner, serial)
        pieces = [outer, inner, serial]
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    return pieces
