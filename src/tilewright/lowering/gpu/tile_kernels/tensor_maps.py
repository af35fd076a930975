"""Tensor maps: how bulk copies find the tiles of an operand, or put those of a result, in memory.

A copy whose addresses are linear in its iterators is a tiled map; one that gathers the windows of a
convolution is an im2col map, whose padding the hardware fills with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright import ir
from tilewright.arith.affine import affine_of
from tilewright.errors import LowerError
from tilewright.ir.intrinsics import call_extern
from tilewright.lowering.gpu.tile_kernels.tile_form import (
    CopyRefused,
    Operand,
    TileAxis,
    TileBlock,
    refused,
    source_of,
)
from tilewright.lowering.gpu.tile_kernels.windows import Windows, read_windows

ROW_BYTES = 128  # of a tile in shared memory: the widest pattern in which banks do not collide
ALIGNMENT = 16  # bytes; of addresses and strides
MAX_BOX = 256
_MOST_DIMENSIONS = 5
# Types that copies turn elements into: tensor cores use the first digits of float32 only, and would
# drop the others instead of rounding.
_FETCHED = {"float32": "tfloat32"}


@dataclass(frozen=True)
class Dimension:
    """One dimension of a tiled map, in elements."""

    axis: TileAxis
    stride: int
    box: int


@dataclass(frozen=True)
class TensorMap:
    """A tiled map; the first dimension is contiguous."""

    var: ir.Var
    buffer: ir.Buffer
    base: int  # elements ahead of the first one
    dimensions: tuple[Dimension, ...]
    swizzle: int  # bytes
    dtype: str

    def creation(self) -> ir.Call:
        """The call on the host that makes the map."""
        size, dims = self.buffer.dtype.itemsize, self.dimensions
        numbers = [
            len(dims),
            *(each.axis.size for each in dims),
            *(each.stride * size for each in dims[1:]),
            *(each.box for each in dims),
            self.swizzle,
        ]
        base = self.base * size
        return call_extern("handle", "tw_tensor_map", self.dtype, self.buffer.data, base, *numbers)


@dataclass(frozen=True)
class WindowMap:
    """An im2col map of an image in the order NHWC."""

    var: ir.Var
    buffer: ir.Buffer
    windows: Windows
    channels: int
    pixels: int
    dtype: str

    def creation(self) -> ir.Call:
        """The call on the host that makes the map."""
        w = self.windows
        n, height, width, c = w.shape
        lower = (-w.width.pad, -w.height.pad)
        upper = (w.width.upper(width), w.height.upper(height))
        numbers = [c, width, height, n, *lower, *upper, self.channels, self.pixels]
        strides = (w.width.stride, w.height.stride)
        data = self.buffer.data
        return call_extern("handle", "tw_window_map", self.dtype, data, 0, *numbers, *strides)


def map_variable(name: str) -> ir.Var:
    """A variable for a tensor map, which kernels take by value."""
    return ir.Var(name, ir.HANDLE, ir.PointerType(ir.DType("uint64"), "tensormap"))


@dataclass(frozen=True)
class OperandMap:
    """The map of an operand, and the order in which its tile lies in shared memory."""

    map: TensorMap | WindowMap | None  # None: threads gather it
    operand: Operand
    is_depth_first: bool  # elements that follow each other belong to the same row
    panel: int  # elements of a row of the tile in shared memory

    @property
    def rows(self) -> int:
        """Rows or columns of the result that a tile has."""
        return self.operand.copy.axes[self.operand.row].extent

    @property
    def bytes(self) -> int:
        """Of a tile in shared memory."""
        return self.rows * ROW_BYTES


def operand_map(operand: Operand, name: str, *, may_gather: bool = False) -> OperandMap:
    """How an operand is fetched: by bulk copies if they can, else by threads if they may."""
    try:
        load, guard = source_of(operand.copy)
        depth = operand.copy.axes[operand.depth].extent
        if depth * load.dtype.itemsize != ROW_BYTES:
            raise refused(f"a tile has {depth} of {load.dtype!s} along the sum, not 128 bytes")
    except LowerError as error:
        raise CopyRefused(operand.copy, error) from error
    try:
        return _bulk_map(operand, map_variable(name))
    except LowerError as error:
        if may_gather:
            return OperandMap(None, operand, True, depth)
        is_windows = guard is not None or linear_terms(operand.copy, load)[0] is None
        raise CopyRefused(operand.copy, error, is_windows=is_windows) from error


def _bulk_map(operand: Operand, var: ir.Var) -> OperandMap:
    copy = operand.copy
    load, guard = source_of(copy)
    row, depth = (copy.axes[name] for name in (operand.row, operand.depth))
    size, dtype = load.dtype.itemsize, _FETCHED.get(str(load.dtype), str(load.dtype))
    terms, base = linear_terms(copy, load)
    if terms is None or guard is not None:
        windows = read_windows(load, guard, row, depth)
        gathered = WindowMap(var, load.buffer, windows, depth.extent, row.extent, dtype)
        return OperandMap(gathered, operand, True, depth.extent)
    if terms.get(depth.var, 1) == 1:
        box = {depth.var: depth.extent, row.var: min(row.extent, MAX_BOX)}
        made = _tiled(var, copy, load, terms, base, box)
        return OperandMap(replace(made, dtype=dtype), operand, True, depth.extent)
    if size != 2:
        raise refused(f"{load.buffer.name} of {load.dtype!s} is not contiguous along the sum")
    panel = 64 if row.extent % 64 == 0 else 32
    if terms.get(row.var) != 1 or row.extent % panel:
        raise refused(f"no tile of {load.buffer.name} is contiguous")
    box = {row.var: panel, depth.var: depth.extent}
    return OperandMap(_tiled(var, copy, load, terms, base, box), operand, False, panel)


def output_map(output: TileBlock, column: ir.Var, box: Mapping[ir.Var, int]) -> TensorMap:
    """How results are written; `box` is what one copy writes."""
    terms, base = linear_terms(output, output.store)
    try:
        if terms is None or terms.get(column) != 1:
            raise refused(f"the rows of {output.store.buffer.name} are not contiguous")
        return _tiled(map_variable("output_map"), output, output.store, terms, base, box)
    except LowerError as error:
        raise CopyRefused(output, error) from error


def linear_terms(
    block: TileBlock, access: ir.BufferLoad | ir.BufferStore
) -> tuple[dict[ir.Var, int] | None, int]:
    """The strides of iterators in memory, and the first address; None where it is not linear."""
    form = affine_of(block.analyzer().simplify(access.buffer.offset_of(access.indices)))
    if not all(term in block.axes for term in form.terms):
        return None, 0
    return dict(form.variable_terms()), form.base


def _tiled(
    var: ir.Var,
    block: TileBlock,
    access: ir.BufferLoad | ir.BufferStore,
    terms: Mapping[ir.Var, int],
    base: int,
    box: Mapping[ir.Var, int],
) -> TensorMap:
    """A tiled map whose dimensions are those of `box`, then all others."""
    size = access.buffer.dtype.itemsize
    names = [*box, *(axis for axis in terms if axis not in box)]
    dimensions = tuple(
        Dimension(block.axes[name], terms.get(name, ALIGNMENT // size), box.get(name, 1))
        for name in names
    )
    if any(each.stride * size % ALIGNMENT for each in dimensions[1:]) or base * size % ALIGNMENT:
        raise refused(f"rows of {access.buffer.name} do not begin at multiples of 16 bytes")
    if len(dimensions) > _MOST_DIMENSIONS:
        raise refused(
            f"tiles of {access.buffer.name} have {len(dimensions)} dimensions, at most 5 exist"
        )
    width = dimensions[0].box * size
    swizzle = width if width in (32, 64, 128) else 0
    return TensorMap(var, access.buffer, base, dimensions, swizzle, str(access.buffer.dtype))


def coordinates(
    tiled: TensorMap, place: Mapping[ir.Var, ir.PrimExpr], shift: Mapping[ir.Var, int]
) -> Sequence[ir.PrimExpr]:
    """The coordinates of a box: where the tile begins, plus `shift` elements of some axes."""
    return [ir.add(place[each.axis.var], shift.get(each.axis.var, 0)) for each in tiled.dimensions]
