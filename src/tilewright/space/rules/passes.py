"""Blocks without a reduction: in a pass of their own, or beside what uses their results."""

from __future__ import annotations

import math

from tilewright.ir import IntImm
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.space.annotations import TILING_STRUCTURE

STRUCTURE = "pass"
# A vector of a pass: long enough to keep the memory busy, short enough to stay in registers.
PASS_BYTES = 256
# Fewer elements than these are not worth sending to another thread.
PARALLEL_ELEMENTS = 8192
SHORTEST_VECTOR = 4


def extent_of(sch: Schedule, loop: LoopRV) -> int:
    """The extent of a loop; 0 if it is not a number."""
    extent = sch.get_sref(loop).loop.extent
    return extent.value if isinstance(extent, IntImm) else 0


def own_pass(sch: Schedule, block: BlockRV) -> None:
    """One parallel loop over all rows of a block, a vector along the last axis."""
    sch.annotate(block, TILING_STRUCTURE, STRUCTURE)
    loops = sch.get_loops(block)
    if not loops:
        return
    elements = math.prod(extent_of(sch, loop) for loop in loops)
    *outer, last = loops
    pieces = vectorize_last(sch, block, last)
    if elements >= PARALLEL_ELEMENTS:
        rows = [*outer, *pieces[:-1]][: max(1, len(outer))]
        if rows:
            sch.parallel(sch.fuse(*rows) if len(rows) > 1 else rows[0])


def move_beside(sch: Schedule, block: BlockRV, loop: LoopRV) -> None:
    """Compute what an iteration of `loop` needs of a block at its start."""
    sch.annotate(block, TILING_STRUCTURE, STRUCTURE)
    sch.compute_at(block, loop, preserve_unit_loops=True)
    vectorize_last(sch, block, sch.get_loops(block)[-1])


def vectorize_last(sch: Schedule, block: BlockRV, loop: LoopRV) -> list[LoopRV]:
    """Vectorise a loop, cut into pieces if it is long; the pieces, the vector last."""
    bits = sch.get_sref(block).block.writes[0].buffer.dtype.bits
    extent, lanes = extent_of(sch, loop), max(1, PASS_BYTES * 8 // bits)
    if extent < SHORTEST_VECTOR:
        return [loop]
    pieces = sch.split(loop, [None, lanes]) if extent > lanes else [loop]
    pieces = [*pieces[:-1], whole_vectors(sch, pieces[-1], lanes)]
    sch.vectorize(pieces[-1])
    return list(pieces)


def whole_vectors(sch: Schedule, loop: LoopRV, lanes: int) -> LoopRV:
    """A loop for a vector; one of an awkward length becomes `lanes` long, and is masked."""
    extent = extent_of(sch, loop)
    if extent >= lanes or extent & (extent - 1) == 0:
        return loop
    _, whole = sch.split(loop, [None, lanes])
    return whole
