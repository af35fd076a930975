"""Binding of loops to GPU threads: the outer spatial loops of a block are shared among them.

Used by the rule `AutoBind`, where the number of threads is sampled, and by the post-processor
`RewriteUnboundBlock`, where it is as large as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilewright.errors import ScheduleError
from tilewright.ir import ForKind, IterType, SeqStmt
from tilewright.schedule import BlockRV, ExprRV, LoopRV, Schedule, StmtSRef
from tilewright.schedule.conditions.checks import loop_iter_type
from tilewright.schedule.state.scope import loops_of
from tilewright.space.conditions import constant_extent, why_not_free

# The number of threads for a loop, given how many it can use at most.
FactorChooser = Callable[[int], int | ExprRV]


def thread_tag(loop: StmtSRef) -> str:
    """The thread axis that a loop is bound to, or an empty text."""
    binding = loop.loop.thread_binding
    return "" if binding is None else binding.thread_tag


def largest_factor(most_threads: int) -> FactorChooser:
    """As many threads as the loop and the machine allow."""
    return lambda extent: min(most_threads, extent)


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


@dataclass(frozen=True)
class _Nest:
    """What matters of the loops around a block, outermost first."""

    block_axis: int  # first loop bound to blockIdx, -1 if there is none
    thread_axis: int  # first loop bound to threadIdx, -1 if there is none
    fusible: int  # how many of the outermost loops can become one
    spatial: int  # how many of the outermost loops are spatial


def _describe(sch: Schedule, loops: Sequence[StmtSRef]) -> _Nest:
    tags = [thread_tag(loop) for loop in loops]
    kinds = [loop_iter_type(sch.state, loop) for loop in loops]
    return _Nest(
        block_axis=_first(tag.startswith("blockIdx") for tag in tags),
        thread_axis=_first(tag.startswith("threadIdx") for tag in tags),
        fusible=_count_fusible(loops),
        spatial=_first([*(kind is not IterType.DATA_PAR for kind in kinds), True]),
    )


def _first(found: Iterable[bool]) -> int:
    return next((index for index, hit in enumerate(found) if hit), -1)


def _count_fusible(loops: Sequence[StmtSRef]) -> int:
    for index, loop in enumerate(loops):
        if loop.loop.kind is not ForKind.SERIAL:
            return index
        if isinstance(loop.loop.body, SeqStmt):
            return index + 1
    return len(loops)


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
    nest = _describe(sch, loops_of(sref))
    if nest.block_axis >= 0:
        if nest.thread_axis >= 0:
            return "its loops run on threads already"
        raise ScheduleError(
            f"block {sref.name!r} is under a loop bound to blockIdx but under none bound to "
            "threadIdx; bind a loop inside it to threadIdx as well"
        )
    loops = sch.get_loops(block)
    count = min(nest.fusible, nest.spatial)
    if nest.spatial == 0:
        # Without a spatial loop the whole block is the work of one block of threads.
        loops = [sch.add_unit_loop(loops[0] if loops else block)]
        count = 1
    elif nest.thread_axis >= 0:
        count = min(count, nest.thread_axis)
    if nest.thread_axis >= 0:
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
