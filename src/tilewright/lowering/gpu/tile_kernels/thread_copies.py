"""Copies of tiles from memory to shared memory by all threads of a block, asynchronously."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright import ir
from tilewright.ir.intrinsics import address_of, if_then_else
from tilewright.lowering.gpu.tile_kernels.building import loop, run, when
from tilewright.lowering.gpu.tile_kernels.tile_form import Operand, TileAxis, TileBlock, source_of

_NEIGHBOURS = 8  # that threads copy together: a sector of 32 bytes of a cache


@dataclass(frozen=True)
class TileCopy:
    """Copies of the tiles of one operand."""

    operand: Operand
    tiles: ir.Buffer  # in shared memory, and there
    first: int  # the first element
    pitch: int  # elements from a row to the next one
    threads: int

    def start(
        self, thread: ir.Var, place: Mapping[ir.Var, ir.PrimExpr], stage: ir.PrimExpr
    ) -> ir.Stmt:
        """All threads copy one tile: neighbours along the axis that is contiguous in memory."""
        axes = self.operand.copy.axes
        row, depth = axes[self.operand.row], axes[self.operand.depth]
        load, guard = source_of(self.operand.copy)
        width = _vector_width(self.operand, load, guard)
        is_along_rows = width > 1 or stride_of(load, row.var, self.operand.copy) == 1
        count = row.extent * depth.extent // width

        def one(number: ir.Var) -> ir.Stmt:
            index = number * self.threads + thread
            if is_along_rows:
                offsets = {
                    row.var: ir.floormod(index, row.extent // width) * width,
                    depth.var: ir.floordiv(index, row.extent // width),
                }
            else:
                offsets = _turned(index, row, depth)
            values = {
                var: ir.substitute(axis.origin, place) + offsets.get(var, ir.const(0))
                for var, axis in axes.items()
            }
            to = (stage * depth.extent + offsets[depth.var]) * self.pitch + offsets[row.var]
            copy = _guarded_copy(self.tiles[to + self.first], load, guard, values, axes, width)
            return copy if count % self.threads == 0 else when(ir.less(index, count), copy)

        return loop("copy", -(-count // self.threads), one, unrolled=True)


def copies_of(operand: Operand) -> int:
    """How many copies bring one tile of an operand."""
    row, depth = (operand.copy.axes[var] for var in (operand.row, operand.depth))
    return row.extent * depth.extent // _vector_width(operand, *source_of(operand.copy))


def _turned(index: ir.PrimExpr, row: TileAxis, depth: TileAxis) -> dict[ir.Var, ir.PrimExpr]:
    """What a thread copies where neighbours in memory are far apart in shared memory.

    Few neighbours of several rows: their places are in different banks of shared memory.
    """
    near = math.gcd(_NEIGHBOURS, depth.extent)
    far = ir.floordiv(index, near)
    return {
        row.var: ir.floormod(far, row.extent),
        depth.var: ir.floordiv(far, row.extent) * near + ir.floormod(index, near),
    }


def all_of(conditions: list[ir.PrimExpr]) -> ir.PrimExpr:
    """Where all conditions hold."""
    found = conditions[0]
    for condition in conditions[1:]:
        found = ir.logical_and(found, condition)
    return found


def stride_of(access: ir.BufferLoad | ir.BufferStore, var: ir.Var, block: TileBlock) -> int | None:
    """How far a step along an iterator leads in memory, if always as far."""
    offset = access.buffer.offset_of(access.indices)
    found = block.analyzer().simplify(ir.substitute(offset, {var: ir.add(var, 1)}) - offset)
    return found.value if isinstance(found, ir.IntImm) else None


def _vector_width(operand: Operand, load: ir.BufferLoad, guard: ir.PrimExpr | None) -> int:
    """Elements that one copy moves: 16 bytes where rows allow it."""
    row = operand.copy.axes[operand.row]
    width = 16 // load.dtype.itemsize
    aligned = all(
        (stride or 0) % width == 0
        for var in operand.copy.axes
        if var is not row.var and (stride := stride_of(load, var, operand.copy)) is not None
    )
    known = all(stride_of(load, var, operand.copy) is not None for var in operand.copy.axes)
    plain = guard is None and stride_of(load, row.var, operand.copy) == 1 and aligned and known
    return width if plain and row.size % width == 0 and row.extent % width == 0 else 1


def _guarded_copy(
    target: ir.BufferLoad,
    load: ir.BufferLoad,
    guard: ir.PrimExpr | None,
    values: Mapping[ir.Var, ir.PrimExpr],
    axes: Mapping[ir.Var, TileAxis],
    width: int,
) -> ir.Stmt:
    """One asynchronous copy; outside of the tensor it writes zeros and reads the first element."""
    size = width * load.dtype.itemsize
    inside = [] if guard is None else [ir.substitute(guard, values)]
    inside += [ir.less(values[var], axis.size) for var, axis in axes.items() if axis.is_divided]
    source = ir.substitute(load, values)
    if not inside:
        return run(f"tw_copy_async_{size}", address_of(target), address_of(source), size)
    holds = all_of(inside)
    safe = load.buffer[tuple(if_then_else(holds, index, 0) for index in source.indices)]
    assert isinstance(safe, ir.BufferLoad)
    valid = if_then_else(holds, ir.const(size), ir.const(0))
    return run(f"tw_copy_async_{size}", address_of(target), address_of(safe), valid)
