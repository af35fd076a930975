"""`LoopKernels`: whatever no other rule for GPUs has taken, one result for each thread.

Reductions over other axes than the last, pools, scans, sorts: neighbouring threads have
neighbouring results, and each walks along what it reduces. Several threads share a reduction where
there are too few results; where there are far too few, partial results come first, as a kernel of
their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

from tilewright.errors import ScheduleError
from tilewright.ir import Block
from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.nest.block_loops import first_not_spatial, nest_above
from tilewright.nest.block_nest import BlockNest
from tilewright.nest.kernels import tag_of
from tilewright.schedule import BlockRV, LoopRV, Schedule, StmtSRef
from tilewright.space.base import NotApplied, ScheduleRule, schedule_rules
from tilewright.space.conditions import constant_extent, is_root, runs_never, why_not_free
from tilewright.space.cpu.row_fusion import shares_an_operand
from tilewright.space.gpu.element_kernels import inline_producers, why_not_elements
from tilewright.space.gpu.thread_binding import bind_block_thread_idx, sampled_factor
from tilewright.space.gpu.thread_vectors import sampled
from tilewright.space.gpu.vector_windows import share_vectors, width_along_results
from tilewright.te.reducers import recognize_reduction

STRUCTURE = "loop kernel"
_THREADS = (64, 128, 256)
_MOST_BLOCKS = 1 << 20
_MOST_THREADS = 1024
_ENOUGH_THREADS = 132 * 512  # that work on results of their own
_LANES = 32  # neighbouring results that a block works on where several threads share each
_SHARING = (8, 16, 32)
_SHORT = 16  # steps of a reduction that one thread takes alone
_FEW = 64  # steps that one thread takes alone if that spares a kernel for what comes behind
_LONG = 2048  # steps of a reduction of which partial results are worth a kernel
_BLOCKS = 1024  # of threads that are enough for the partial results
_PART = 64  # steps of one of them at least


@schedule_rules.register("LoopKernels")
class LoopKernels(ScheduleRule):
    """Shares the results of a block among threads."""

    takes_empty: ClassVar[bool] = True  # the results of an empty sum are written, too

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """One sketch."""
        sref = sch.get_sref(block)
        if taken := why_not_free(sref):
            return NotApplied(sch, taken)
        if any(tag_of(loop.loop) for loop in sref.loops):
            return NotApplied(sch, "its loops run on threads already")
        if shares_an_operand(sref) and not runs_never(sref.block):
            return NotApplied(sch, "it shares its operands, so that tiles of them are worth it")
        if not why_not_elements(sref):
            return NotApplied(sch, "it is elementwise")
        reason = ""
        for vectors in (True, False):
            made = sch.copy()
            try:
                _share(made, block, vectors=vectors)
            except ScheduleError as error:
                reason = str(error)
            else:
                return [made]
        return NotApplied(sch, reason)


def _share(sch: Schedule, block: BlockRV, *, vectors: bool) -> None:
    stmt = sch.get_sref(block).block
    if not is_root(sch.get_sref(block).scope_root):
        sch.annotate(block, TILING_STRUCTURE, STRUCTURE)
        _decompose(sch, block)  # the block around it has the threads
        return
    if stmt.init is not None and not runs_never(stmt):
        inline_producers(sch, block)
    position = first_not_spatial(nest_above(sch.get_sref(block)))
    if stmt.init is None or position is None:
        _bind(sch, block)
        return
    loops = sch.get_loops(block)
    extents = [constant_extent(sch.get_sref(loop)) or 0 for loop in loops]
    results, steps = math.prod(extents[:position]), math.prod(extents[position:])
    is_known = steps > 0 and recognize_reduction(stmt) is not None
    if is_known and steps <= _FEW:
        last = _last_consumer(sch, block)
        is_large = vectors and results >= _ENOUGH_THREADS
        width = width_along_results(sch, block, last) if is_large else 1
        if width > 1:
            share_vectors(sch, block, last, width, STRUCTURE)
            return
        if last is not None:
            _bind_with_consumer(sch, block, last)
            return
    if is_known and results < _ENOUGH_THREADS and steps > _SHORT:
        reduced = sch.fuse(*loops[position:]) if len(loops) > position + 1 else loops[position]
        along = _reads_along(stmt)
        if parts := _numbers_of_parts(results if along else -(-results // _LANES), steps):
            _in_parts(sch, block, reduced, (along, parts))
        else:
            _together(sch, block, along=along)
        return
    _bind(sch, block)
    _decompose(sch, block)


def _last_consumer(sch: Schedule, block: BlockRV) -> BlockRV | None:
    """The end of a chain of elementwise blocks behind a reduction, which become one block."""
    last: BlockRV | None = None
    while len(consumers := sch.get_consumers(block if last is None else last)) == 1:
        (consumer,) = consumers
        sref = sch.get_sref(consumer)
        if why_not_free(sref) or why_not_elements(sref) or not _is_as_large(sch, block, consumer):
            break
        if last is not None:
            try:
                sch.compute_inline(last)
            except ScheduleError:
                break
        last = consumer
    return last


def _is_as_large(sch: Schedule, block: BlockRV, consumer: BlockRV) -> bool:
    """True if a consumer reads each result of a block at most once."""
    sizes = [
        math.prod(constant_extent(loop) or 0 for loop, is_own in _loops(sch, each) if is_own)
        for each in (block, consumer)
    ]
    return sizes[0] == sizes[1]


def _loops(sch: Schedule, block: BlockRV) -> Iterator[tuple[StmtSRef, bool]]:
    """Loops around a block, and whether its results are written along them."""
    loops = sch.get_loops(block)
    position = first_not_spatial(nest_above(sch.get_sref(block)))
    for n, loop in enumerate(loops):
        yield sch.get_sref(loop), position is None or n < position


def _bind_with_consumer(sch: Schedule, block: BlockRV, last: BlockRV) -> None:
    """A thread reduces to a result, and does what comes behind that to it."""
    inline_producers(sch, last)
    sch.set_scope(block, 0, "local")
    _bind(sch, last)
    sch.compute_at(block, sch.get_loops(last)[1], preserve_unit_loops=True)
    sch.annotate(block, TILING_STRUCTURE, STRUCTURE)


def _bind(sch: Schedule, block: BlockRV) -> None:
    choose = sampled_factor(sch, _THREADS)
    if reason := bind_block_thread_idx(sch, block, _MOST_BLOCKS, _MOST_THREADS, choose):
        raise ScheduleError(reason)
    sch.annotate(block, TILING_STRUCTURE, STRUCTURE)


def _decompose(sch: Schedule, block: BlockRV) -> None:
    """The result starts before the loops of its sum, even if these have no steps."""
    position = first_not_spatial(nest_above(sch.get_sref(block)))
    if position is not None and sch.get_sref(block).block.init is not None:
        sch.decompose_reduction(block, sch.get_loops(block)[position])


def _reads_along(stmt: Block) -> bool:
    """True if a reduction goes along memory."""
    nest = BlockNest(stmt)
    innermost = nest.iters[nest.depth[-1]]
    moving = [read for read in nest.inputs.values() if read.uses(innermost)]
    return bool(moving) and all(
        [read.axes_using(innermost) == [len(read.indices) - 1] for read in moving]
    )


def _numbers_of_parts(blocks: int, steps: int) -> list[int]:
    """Into how many equal parts a long reduction may be divided, if any number is good.

    `blocks` of threads are there without that.
    """
    most = min(_BLOCKS // blocks, steps // _PART) if steps >= _LONG else 0
    return [n for n in range(most, 1, -1) if steps % n == 0][:3]


def _in_parts(
    sch: Schedule, block: BlockRV, reduced: LoopRV, choices: tuple[bool, list[int]]
) -> None:
    """Partial results come first; neighbouring threads have neighbouring results of one part."""
    along, numbers = choices
    parts, _ = sch.split(reduced, [sampled(sch, numbers), None])
    partial = sch.rfactor(parts, 0)
    *results, part, _ = sch.get_loops(partial)
    if results:
        sch.reorder(part, *results)
    _together(sch, partial, along=along)
    _together(sch, block, along=not results)


def _together(sch: Schedule, block: BlockRV, *, along: bool) -> None:
    """Several threads reduce to one result."""
    *results, reduced = sch.get_loops(block)
    if not results:
        results = [sch.add_unit_loop(reduced)]
    fused = sch.fuse(*results) if len(results) > 1 else results[0]
    if along:
        sch.bind(fused, "blockIdx.x")
        _, thread = sch.split(reduced, [None, sampled(sch, _THREADS)])
        sch.bind(thread, "threadIdx.x")
    else:
        outer, lane = sch.split(fused, [None, _LANES])
        _, thread = sch.split(reduced, [None, sampled(sch, _SHARING)])
        for loop, tag in ((outer, "blockIdx.x"), (lane, "threadIdx.x"), (thread, "threadIdx.y")):
            sch.bind(loop, tag)
    sch.annotate(block, TILING_STRUCTURE, STRUCTURE)
