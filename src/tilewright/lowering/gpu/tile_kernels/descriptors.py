"""Descriptors: what `wgmma` has to know of a tile in shared memory, and how to move along it."""

from __future__ import annotations

from tilewright import ir
from tilewright.ir.intrinsics import call_extern
from tilewright.lowering.gpu.tile_kernels.tensor_maps import ROW_BYTES, OperandMap

UINT32, UINT64 = ir.DType("uint32"), ir.DType("uint64")
_SWIZZLES = {128: 1, 64: 2, 32: 3}


def word(value: int) -> ir.PrimExpr:
    """An address in shared memory, or a part of one."""
    return ir.const(value, UINT32)


def far(size: int) -> ir.PrimExpr:
    """A distance in bytes, as it is added to a descriptor."""
    return ir.const(size // 16, UINT64)


def rows_shift(operand: OperandMap, rows: int) -> int:
    """Bytes between a row of a tile and one that many rows later."""
    if operand.is_depth_first:
        return rows * ROW_BYTES
    depth = operand.operand.copy.axes[operand.operand.depth].extent
    return rows // operand.panel * depth * operand.panel * 2


def depth_shift(operand: OperandMap) -> int:
    """Bytes between the tiles of two instructions that follow each other along the sum."""
    return 32 if operand.is_depth_first else 16 * operand.panel * 2


def descriptor(operand: OperandMap, address: ir.PrimExpr) -> ir.PrimExpr:
    """A tile that begins at an address: that, and how its rows lie."""
    width = operand.panel * operand.operand.copy.store.buffer.dtype.itemsize
    depth = operand.operand.copy.axes[operand.operand.depth].extent
    panels = 16 if operand.is_depth_first else depth * width
    numbers = (word(panels), word(8 * width), word(_SWIZZLES[width]))
    return call_extern(UINT64, "tw_matrix_descriptor", address, *numbers)
