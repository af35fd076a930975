"""Tiles in shared memory: how bulk copies fill them, and what matrix instructions know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright import ir
from tilewright.ir.intrinsics import call_extern
from tilewright.lowering.gpu.tile_kernels.building import run, word
from tilewright.lowering.gpu.tile_kernels.tensor_maps import (
    MAX_BOX,
    ROW_BYTES,
    OperandMap,
    WindowMap,
    coordinates,
)

UINT64 = ir.DType("uint64")
_SWIZZLES = {128: 1, 64: 2, 32: 3}


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
    """What the instruction has to know of a tile: its address and how its rows lie."""
    width = operand.panel * operand.operand.copy.store.buffer.dtype.itemsize
    depth = operand.operand.copy.axes[operand.operand.depth].extent
    panels = 16 if operand.is_depth_first else depth * width
    mode = _SWIZZLES[width]
    numbers = (word(panels), word(8 * width), word(mode))
    return call_extern(UINT64, "tw_matrix_descriptor", address, *numbers)


def bulk_loads(
    operand: OperandMap,
    address: ir.PrimExpr,
    barrier: ir.PrimExpr,
    place: Mapping[ir.Var, ir.PrimExpr],
) -> Sequence[ir.Stmt]:
    """Bulk copies of one tile."""
    axes = operand.operand.copy.axes
    origin = {var: ir.substitute(axis.origin, place) for var, axis in axes.items()}
    row, made = operand.operand.row, operand.map
    assert made is not None
    if isinstance(made, WindowMap):
        c, s, r = made.windows.tap(origin[operand.operand.depth])
        w, h, n = made.windows.position(origin[row])
        return [run("tw_load_windows", address, made.var, barrier, c, w, h, n, s, r)]
    width = MAX_BOX if operand.is_depth_first else operand.panel
    copies = []
    for first in range(0, operand.rows, width):
        target = address + word(rows_shift(operand, first))
        at = coordinates(made, origin, {row: first})
        copies.append(run(f"tw_load_{len(at)}d", target, made.var, barrier, *at))
    return copies
