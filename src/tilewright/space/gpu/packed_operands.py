"""Operands of products that a kernel of their own brings into order first.

Tensor cores want those elements of 8-bit numbers and of float32 next to each other that are
multiplied one after another, and bulk copies want rows that begin at multiples of 16 bytes.
"""

from __future__ import annotations

from tilewright import ir
from tilewright.arith import IndexMap
from tilewright.errors import ScheduleError
from tilewright.schedule import BlockRV, Schedule
from tilewright.space.base import NotApplied
from tilewright.space.gpu.element_kernels import ElementKernels

_ALIGNMENT = 16  # bytes; of rows


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
    made = ElementKernels().apply(sch, block)
    if isinstance(made, NotApplied):
        raise ScheduleError(made.reason)
    return made[0]
