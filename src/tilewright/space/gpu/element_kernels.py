"""`ElementKernels`: elementwise blocks, one vector for each thread of a GPU.

Of an input that is read across, as in a transposition, tiles go through shared memory, so that
neighbouring threads read and write neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright import ir
from tilewright.errors import ScheduleError
from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.nest.access import BufferAccess
from tilewright.nest.block_nest import BlockNest
from tilewright.schedule import BlockRV, LoopRV, Schedule, StmtSRef
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.space.base import NotApplied, ScheduleRule, schedule_rules
from tilewright.space.conditions import (
    UNUSUAL_BINDING,
    all_iters_spatial,
    constant_extent,
    why_not_free,
)
from tilewright.space.gpu.thread_vectors import (
    inputs_along,
    sampled,
    through_registers,
    vector_width,
)

STRUCTURE = "element kernel"
_THREADS = (128, 256, 512)
_TILE_THREADS = 512
_VECTOR_TILE_THREADS = 256
_TILE_SIDES = (64, 32, 16)
_SIDE_BYTES = 256
_IF_THEN_ELSE = ir.Op.get("tir.if_then_else")


@schedule_rules.register("ElementKernels")
class ElementKernels(ScheduleRule):
    """Shares the elements of a block among threads."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """One sketch: of tiles where an input is read across, else of vectors."""
        sref = sch.get_sref(block)
        if reason := _why_not_free_elements(sref):
            return NotApplied(sch, reason)
        inline_producers(sch, block)
        across = _read_across(sch.get_sref(block))
        if across is not None:
            tiled = sch.copy()
            try:
                _tile(tiled, block, *across)
            except ScheduleError:
                pass  # vectors serve any input
            else:
                return [tiled]
        _share_vectors(sch, block)
        return [sch]


def why_not_elements(block: StmtSRef) -> str:
    """Why a block is not elementwise; empty if it is."""
    if not all_iters_spatial(block.block):
        return "it is a reduction"
    if not has_trivial_binding(block) or len(block.block.writes) != 1:
        return UNUSUAL_BINDING
    extents = [constant_extent(loop) for loop in block.loops]
    return "" if extents and all(extents) else "it has no loops, or ones of unknown extents"


def inline_producers(sch: Schedule, block: BlockRV) -> None:
    """Compute elements where they are read, if all other blocks that read them are elementwise."""
    own = sch.get_sref(block)
    for producer in sch.get_producers(block):
        readers = [sch.get_sref(each) for each in (producer, *sch.get_consumers(producer))]
        if any(_why_not_free_elements(each) for each in readers if each is not own):
            continue
        inline_producers(sch, producer)
        try:
            sch.compute_inline(producer)
        except ScheduleError:
            continue  # it is a kernel of its own


def _why_not_free_elements(block: StmtSRef) -> str:
    return why_not_free(block) or why_not_elements(block)


# --- vectors ------------------------------------------------------------------------------------


def _share_vectors(sch: Schedule, block: BlockRV) -> None:
    loops = sch.get_loops(block)
    extents = [constant_extent(sch.get_sref(loop)) or 1 for loop in loops]
    width = _width(sch.get_sref(block).block, extents[-1])
    vectors, inner = sch.split(loops[-1], [None, width])
    fused = sch.fuse(*loops[:-1], vectors) if len(loops) > 1 else vectors
    count = math.prod(extents) // width
    fitting = [n for n in _THREADS if n <= count] or [count]
    outer, thread = sch.split(fused, [None, sampled(sch, fitting)])
    sch.bind(outer, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.annotate(block, TILING_STRUCTURE, STRUCTURE)
    if width > 1 and _is_copy(sch.get_sref(block).block):
        sch.vectorize(inner)
    elif width > 1:
        through_registers(sch, block, thread, STRUCTURE)


def _is_copy(stmt: ir.Block) -> bool:
    """True if a block moves elements as they are, or puts a constant where there are none."""
    lane = stmt.iter_vars[-1].var
    value = stmt.body.value if isinstance(stmt.body, ir.BufferStore) else None
    while isinstance(value, ir.Call) and value.op is _IF_THEN_ELSE:
        condition, value, other = value.args
        if ir.uses_var(condition, lambda var: var is lane) or not isinstance(
            other, (ir.IntImm, ir.FloatImm)
        ):
            return False
    if not isinstance(value, ir.BufferLoad):
        return False
    return BufferAccess.at(value.buffer, value.indices).lies_along(lane)


def _width(stmt: ir.Block, extent: int) -> int:
    """Elements of a vector, by the result and all that is read along it."""
    (write,) = stmt.writes
    if not BufferAccess.of(write).lies_along(stmt.iter_vars[-1].var):
        return 1
    read = inputs_along(stmt, stmt.iter_vars[-1].var).values()
    return vector_width(extent, [write.buffer.dtype, *(region.buffer.dtype for region in read)])


# --- tiles --------------------------------------------------------------------------------------


def _read_across(block: StmtSRef) -> tuple[int, int, int] | None:
    """The input that lies along another axis than the result: its position among the inputs, that
    axis among the loops, and the axis of the result among those of the input."""
    stmt = block.block
    nest = BlockNest(stmt)
    extents = [constant_extent(loop) or 0 for loop in block.loops]
    (write,) = nest.writes
    if len(nest.iters) < 2 or not write.lies_along(nest.iters[-1]):
        return None
    along = len(nest.iters) - 1
    for position, access in nest.inputs.items():
        read = [nest.position(index.variable) for index in access.indices]
        axis = read[-1] if read else None
        if axis is None or axis == along or read.count(along) != 1 or read.count(axis) != 1:
            continue
        if min(extents[axis], extents[along]) >= _TILE_SIDES[-1]:
            return position, axis, read.index(along)
    return None


def _side(dtype: ir.DType, extents: Sequence[int]) -> int:
    """Elements of a side of a tile: a row of it is read at once, and the block has them."""
    most = min(_SIDE_BYTES // dtype.itemsize, *extents)
    return next((side for side in _TILE_SIDES if side <= most), _TILE_SIDES[-1])


def _tile_width(stmt: ir.Block, dtype: ir.DType, extent: int) -> int:
    """Elements of a vector, by the input, the result and all that is read along it."""
    (write,) = stmt.writes
    along = inputs_along(stmt, stmt.iter_vars[-1].var).values()
    return vector_width(extent, [dtype, *(each.buffer.dtype for each in (write, *along))])


def _tile(sch: Schedule, block: BlockRV, position: int, axis: int, turned: int) -> None:
    """Read tiles along one axis and write them along another."""
    loops = sch.get_loops(block)
    dtype = sch.get_sref(block).block.reads[position].buffer.dtype
    extents = [constant_extent(sch.get_sref(loops[n])) or 0 for n in (axis, -1)]
    side = _side(dtype, extents)
    width = _tile_width(sch.get_sref(block).block, dtype, math.gcd(side, *extents))
    across, inner_across = sch.split(loops[axis], [None, side])
    along, inner_along = sch.split(loops[-1], [None, side])
    others = [loop for n, loop in enumerate(loops[:-1]) if n != axis]
    sch.reorder(*others, across, along, inner_across, inner_along)
    tiles = sch.fuse(*others, across, along)
    sch.bind(tiles, "blockIdx.x")
    _share_tile(sch, block, (inner_across, inner_along), side, width)
    tile = sch.cache_read(block, position, "shared", [block])
    sch.compute_at(tile, tiles, preserve_unit_loops=True)
    *outer, last = sch.get_loops(tile)[1:]
    if constant_extent(sch.get_sref(last)) != side:
        raise ScheduleError("a tile of the result needs more than a tile of the input")
    rows = sch.fuse(*outer) if len(outer) > 1 else outer[0]
    _share_tile(sch, tile, (rows, last), side, width)
    sch.storage_align(tile, 0, turned, side, 1)
    for each in (block, tile):
        sch.annotate(each, TILING_STRUCTURE, STRUCTURE)


def _share_tile(
    sch: Schedule, block: BlockRV, loops: tuple[LoopRV, LoopRV], side: int, width: int
) -> None:
    """Neighbouring threads take neighbouring columns, or vectors of them."""
    rows, columns = loops
    most = _TILE_THREADS if width == 1 else _VECTOR_TILE_THREADS
    if width > 1:
        columns, _ = sch.split(columns, [None, width])
    sch.bind(columns, "threadIdx.x")
    steps, thread = sch.split(rows, [None, min(side, most * width // side)])
    sch.bind(thread, "threadIdx.y")
    sch.unroll(steps)
    if width > 1:
        through_registers(sch, block, columns, STRUCTURE)
