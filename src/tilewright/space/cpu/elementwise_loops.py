"""Blocks without a reduction: in a pass of their own, or beside what uses their results."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.ir import Block, annotation_keys as keys
from tilewright.nest.block_nest import BlockNest
from tilewright.nest.loops import known_extent
from tilewright.schedule import BlockRV, ExprRV, LoopRV, Schedule

STRUCTURE = "pass"
# A vector of a pass: long enough to keep the memory busy, short enough to stay in registers.
PASS_BYTES = 256
# Fewer elements than these are not worth sending to another thread.
PARALLEL_ELEMENTS = 8192
PARALLEL_TASKS = 64  # enough for all threads to have the same amount of work
SHORTEST_VECTOR = 4
# Side of the tiles that matrices are transposed in: short rows of lines that stay in the cache.
TRANSPOSED_TILE = 8
TRANSPOSED_COLUMNS = 16  # a line of the cache: reads of more lines at a stride are slow on Intel
TRANSPOSED_ROWS = 64


def extent_of(sch: Schedule, loop: LoopRV) -> int:
    """The extent of a loop; 0 if it is not a number."""
    return known_extent(sch.get_sref(loop).loop) or 0


def choose(sch: Schedule, candidates: Sequence[int]) -> ExprRV | int:
    """One of some numbers, by a decision of the search if there are several."""
    if len(candidates) == 1:
        return candidates[0]
    share = 1.0 / len(candidates)
    return sch.sample_categorical(candidates, [share] * len(candidates))


def own_pass(sch: Schedule, block: BlockRV) -> None:
    """One parallel loop over all rows of a block, a vector along the last axis."""
    sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
    loops = sch.get_loops(block)
    if not loops:
        return
    elements = math.prod(extent_of(sch, loop) for loop in loops)
    shared = _vectorize(sch, block, loops)
    if elements >= PARALLEL_ELEMENTS and shared:
        rows = enough_tasks(sch, shared)
        sch.parallel(sch.fuse(*rows) if len(rows) > 1 else rows[0])


def enough_tasks(sch: Schedule, loops: Sequence[LoopRV]) -> list[LoopRV]:
    """The outer ones of some loops: fused loops divide in every iteration, so take no more."""
    chosen: list[LoopRV] = []
    for loop in loops:
        if math.prod(extent_of(sch, other) for other in chosen) < PARALLEL_TASKS:
            chosen.append(loop)
    return chosen


def move_beside(sch: Schedule, block: BlockRV, loop: LoopRV) -> None:
    """Compute what an iteration of `loop` needs of a block at its start."""
    sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
    sch.compute_at(block, loop, preserve_unit_loops=True)
    own = len(sch.get_sref(block).block.iter_vars)
    _vectorize(sch, block, sch.get_loops(block)[-own:])


def _vectorize(sch: Schedule, block: BlockRV, loops: Sequence[LoopRV]) -> list[LoopRV]:
    """Vectorise the last loop of a block, in tiles if it transposes; the loops to share out."""
    *outer, last = loops
    along = _contiguous_source(sch.get_sref(block).block)
    is_whole = len(loops) == len(sch.get_sref(block).block.iter_vars)
    if (
        along is None
        or not is_whole
        or min(extent_of(sch, loop) for loop in (loops[along], last)) < TRANSPOSED_TILE
    ):
        most = max(1, len(outer))
        short = extent_of(sch, last)
        if not outer or not 1 <= short < SHORTEST_VECTOR:
            return [*outer, *vectorize_last(sch, block, last)[:-1]][:most]
        both = sch.fuse(outer.pop(), last)
        return [*outer, *vectorize_last(sch, block, both, short)[:-1]][:most]
    rest = [loop for loop in outer if loop is not loops[along]]
    return [*rest, *_transpose(sch, loops[along], last)]


def _transpose(sch: Schedule, column: LoopRV, row: LoopRV) -> list[LoopRV]:
    """Tiles of a transposition in blocks that stay in the cache; the loops over blocks.

    No two blocks write to the same line of the cache, so that cores do not wait for each other.
    """
    side = TRANSPOSED_TILE
    columns, column_tiles, step = sch.split(column, [None, TRANSPOSED_COLUMNS // side, side])
    rows, row_tiles, lanes = sch.split(row, [None, TRANSPOSED_ROWS // side, side])
    sch.reorder(columns, rows, row_tiles, column_tiles, step, lanes)
    write_out(sch, [step], lanes)
    return [columns, rows]


def write_out(sch: Schedule, loops: Sequence[LoopRV], lanes: LoopRV) -> None:
    """Unroll some loops around one that becomes a vector."""
    for loop in loops:
        sch.unroll(loop)
    sch.vectorize(lanes)


def _contiguous_source(block: Block) -> int | None:
    """Which iterator of a block walks along its input, if another one walks along its output."""
    nest = BlockNest(block)
    if len(nest.reads) != 1 or len(nest.writes) != 1:
        return None
    source, result = (nest.position(access.last) for access in (*nest.reads, *nest.writes))
    return source if result == len(nest.iters) - 1 and source != result else None


def vectorize_last(sch: Schedule, block: BlockRV, loop: LoopRV, unit: int = 1) -> list[LoopRV]:
    """Vectorise a loop, cut into pieces if it is long; the pieces, the vector last.

    Vectors have a multiple of `unit` lanes, so that none ends in the middle of one.
    """
    bits = max(8, sch.get_sref(block).block.writes[0].buffer.dtype.bits)
    lanes = unit << max(0, (PASS_BYTES * 8 // (bits * unit)).bit_length() - 1)
    extent = extent_of(sch, loop)
    if extent < SHORTEST_VECTOR:
        return [loop]
    pieces = sch.split(loop, [None, lanes]) if extent > lanes else [loop]
    vector = whole_vectors(sch, pieces[-1], lanes)
    sch.vectorize(vector)
    return [*pieces[:-1], vector]


def whole_vectors(sch: Schedule, loop: LoopRV, lanes: int) -> LoopRV:
    """A loop for a vector; one of an awkward length becomes `lanes` long, and is masked."""
    extent = extent_of(sch, loop)
    if extent >= lanes or extent & (extent - 1) == 0:
        return loop
    _, whole = sch.split(loop, [None, lanes])
    return whole
