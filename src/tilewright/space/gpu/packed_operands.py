"""Operands of products that a kernel of their own brings into order first.

Tensor cores want those elements of 8-bit numbers and of float32 next to each other that are
multiplied one after another, and bulk copies want rows that begin at multiples of 16 bytes.
"""

from __future__ import annotations

from tilewright import ir
from tilewright.arith import IndexMap
from tilewright.errors import ScheduleError
from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.schedule import BlockRV, Schedule
from tilewright.space.base import NotApplied
from tilewright.space.conditions import constant_extent
from tilewright.space.gpu.element_kernels import STRUCTURE, ElementKernels, inline_producers
from tilewright.space.gpu.thread_vectors import VECTOR_BYTES, mark_copy

_ALIGNMENT = 16  # bytes; of rows
_TURNED_BYTES = 4  # of an element, at least: of smaller ones a thread would turn too many
# Threads along rows and columns of the copy: of a warp, so that whole lines of memory are written
# and whole sectors read, and the warps of a block.
_LANES = (4, 8)
_WARPS = (4, 2)


def packed_operand(sch: Schedule, copy: BlockRV, *, is_turned: bool) -> Schedule:
    """Let a kernel of its own write a copy of an operand, as a matrix with the sum along its rows.

    `is_turned`: the last axis but one of the copy is the sum.
    """
    buffer = sch.get_sref(copy).block.writes[0].buffer
    names = [ir.Var(f"i{n}", ir.INT32) for n in range(len(buffer.shape))]
    *batch, row, depth = names
    if is_turned:
        row, depth = depth, row
        sch.transform_block_layout(copy, IndexMap(tuple(names), (*batch, row, depth)))
    extent = buffer.shape[-2 if is_turned else -1]
    layout = IndexMap(tuple(names), (*batch, row, *_whole_rows(depth, extent, buffer.dtype)))
    is_padded = len(layout.final_indices) > len(names)
    sch.transform_layout(copy, ("write", 0), layout, pad_value=0 if is_padded else None)
    return _kernel(sch, copy)


def _whole_rows(index: ir.Var, extent: ir.PrimExpr, dtype: ir.DType) -> tuple[ir.PrimExpr, ...]:
    """An axis, in two where its rows would not begin at multiples of 16 bytes."""
    whole = _ALIGNMENT // dtype.itemsize
    if ir.is_zero(ir.floormod(extent, whole)):
        return (index,)
    return ir.floordiv(index, whole), ir.floormod(index, whole)


def _kernel(sch: Schedule, block: BlockRV) -> Schedule:
    turned = sch.copy()
    try:
        inline_producers(turned, block)
        _turn_in_registers(turned, block)
    except ScheduleError:
        pass  # tiles in shared memory serve any operand
    else:
        return turned
    made = ElementKernels().apply(sch, block)
    if isinstance(made, NotApplied):
        raise ScheduleError(made.reason)
    return made[0]


def _turn_in_registers(sch: Schedule, block: BlockRV) -> None:
    """Let each thread turn a square: it reads vectors of its rows and writes those of its columns.

    All of it is under way at the same time, without shared memory and barriers.
    """
    stmt = sch.get_sref(block).block
    *outer, row, column = sch.get_loops(block)
    dtype = stmt.writes[0].buffer.dtype
    side = VECTOR_BYTES // dtype.itemsize
    extents = [constant_extent(sch.get_sref(loop)) or 1 for loop in (row, column)]
    shares = [side * lanes * warps for lanes, warps in zip(_LANES, _WARPS, strict=True)]
    if dtype.itemsize < _TURNED_BYTES or not _is_turned_copy(stmt):
        raise ScheduleError("it is no transposition of large elements")
    if any(extent % share for extent, share in zip(extents, shares, strict=True)):
        raise ScheduleError("its sides are no multiples of those of a block of threads")
    parts = [
        sch.split(loop, [None, warps, lanes, side])
        for loop, lanes, warps in zip((row, column), _LANES, _WARPS, strict=True)
    ]
    order = [part for level in zip(*parts, strict=True) for part in level]
    sch.reorder(*outer, *order)
    sch.bind(sch.fuse(*outer, *order[:2]), "blockIdx.x")
    thread = sch.fuse(*order[2:6])
    sch.bind(thread, "threadIdx.x")
    fetched = sch.cache_read(block, 0, "local", [block])
    sch.compute_at(fetched, thread, preserve_unit_loops=True)
    mark_copy(sch, fetched, STRUCTURE)
    written = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(written, thread, preserve_unit_loops=True)
    mark_copy(sch, written, STRUCTURE)
    sch.annotate(block, TILING_STRUCTURE, STRUCTURE)
    for loop in (sch.get_loops(fetched)[-2], sch.get_loops(written)[-2], *order[6:]):
        sch.unroll(loop)


def _is_turned_copy(stmt: ir.Block) -> bool:
    """Does a block only exchange the last two axes of what it reads?"""
    store = stmt.body
    if not isinstance(store, ir.BufferStore) or not isinstance(store.value, ir.BufferLoad):
        return False
    turned = (*store.indices[:-2], store.indices[-1], store.indices[-2])
    return len(store.indices) >= 2 and store.value.indices == turned
