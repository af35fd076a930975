"""Images of few channels, staged in shared memory before threads gather windows there.

Bulk copies cannot fetch single pixels of few channels, but they can fetch parts of lines, with
zeros around the image. A line of results is cut into segments whose windows lie in one box of a
bulk copy; a tile needs the boxes of all segments that it has rows of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tilewright import ir
from tilewright.ir.intrinsics import bitwise_and, bitwise_xor
from tilewright.lowering.gpu.tile_kernels.building import UINT32, run, when, word
from tilewright.lowering.gpu.tile_kernels.tensor_maps import (
    ALIGNMENT,
    MAX_BOX,
    Dimension,
    TensorMap,
    map_variable,
)
from tilewright.lowering.gpu.tile_kernels.tile_form import Operand, TileAxis, refused, source_of
from tilewright.lowering.gpu.tile_kernels.windows import Windows, find_windows

_BOX_ALIGNMENT = 128  # bytes; of boxes in shared memory
_IMAGES = 2  # that are staged at a time: of the tile that is gathered, and of the next one


@dataclass(frozen=True)
class StagedImage:
    """The boxes of an image that a tile needs."""

    operand: Operand
    windows: Windows
    itemsize: int

    @staticmethod
    def of(operand: Operand) -> StagedImage:
        """How the image of an operand is staged; refused where that cannot be."""
        load, guard = source_of(operand.copy)
        row, depth = (operand.copy.axes[var] for var in (operand.row, operand.depth))
        made = StagedImage(operand, find_windows(load, guard, row, depth), load.dtype.itemsize)
        _, _, width, channels = made.windows.shape
        if width * channels * made.itemsize % ALIGNMENT:
            raise refused(f"lines of {load.buffer.name} do not begin at multiples of 16 bytes")
        if made._most_pixels < 1 or made.lines > MAX_BOX:
            raise refused(f"windows of {load.buffer.name} are larger than one box")
        return made

    # --- sizes ----------------------------------------------------------------------------------

    @property
    def _reach(self) -> int:
        """Elements of a window along a line."""
        across = self.windows.width
        return ((across.taps - 1) * across.dilation + 1) * self.windows.shape[3]

    @property
    def _step(self) -> int:
        """Elements between windows of neighbouring results."""
        return self.windows.width.stride * self.windows.shape[3]

    @property
    def lines(self) -> int:
        """Of a box."""
        return (self.windows.height.taps - 1) * self.windows.height.dilation + 1

    @property
    def _unit(self) -> int:
        """Elements at multiples of which boxes begin in the image, else the hardware traps."""
        return ALIGNMENT // self.itemsize

    @property
    def _shift(self) -> int:
        """Elements of a box ahead of its first window, which may begin anywhere."""
        return -self.windows.width.pad * self.windows.shape[3] % self._unit

    @property
    def _most_pixels(self) -> int:
        """Results of a segment at most: as many as move by whole units."""
        together = self._unit // math.gcd(self._unit, self._step)
        return ((MAX_BOX - self._shift - self._reach) // self._step + 1) // together * together

    @cached_property
    def segments(self) -> int:
        """Of a line of results."""
        return -(-self.windows.width.outputs // self._most_pixels)

    @cached_property
    def pixels(self) -> int:
        """Results of a segment."""
        together = self._unit // math.gcd(self._unit, self._step)
        return -(-self.windows.width.outputs // (self.segments * together)) * together

    @property
    def width(self) -> int:
        """Elements of a line of a box."""
        needed = self._shift + (self.pixels - 1) * self._step + self._reach
        return -(-needed // self._unit) * self._unit

    @property
    def box_bytes(self) -> int:
        """That a bulk copy moves."""
        return self.lines * self.width * self.itemsize

    @property
    def _pitch(self) -> int:
        """Bytes between boxes."""
        return -(-self.box_bytes // _BOX_ALIGNMENT) * _BOX_ALIGNMENT

    @cached_property
    def boxes(self) -> int:
        """As many as any tile needs."""
        rows, outputs = self.operand.copy.axes[self.operand.row].extent, self.windows.width.outputs
        first = {tile * rows % outputs for tile in range(outputs)}
        return max(self._count(start, start + rows - 1) for start in first)

    def _count(self, first: int, last: int) -> int:
        outputs = self.windows.width.outputs
        begin, end = (
            row // outputs * self.segments + row % outputs // self.pixels for row in (first, last)
        )
        return end - begin + 1

    @property
    def bytes(self) -> int:
        """Of all boxes of a tile."""
        return self.boxes * self._pitch

    # --- copies ---------------------------------------------------------------------------------

    @cached_property
    def map(self) -> TensorMap:
        """The image as lines of elements."""
        load, _ = source_of(self.operand.copy)
        images, height, width, channels = self.windows.shape
        line = width * channels
        sizes = ((line, 1, self.width), (height, line, self.lines), (images, height * line, 1))
        dimensions = tuple(
            Dimension(TileAxis(ir.Var(f"d{n}", ir.INT32), ir.const(0), box, size), stride, box)
            for n, (size, stride, box) in enumerate(sizes)
        )
        return TensorMap(map_variable("image_map"), load.buffer, 0, dimensions, 0, str(load.dtype))

    def coordinates(self, row: ir.PrimExpr, number: int) -> Sequence[ir.PrimExpr]:
        """Where one of the boxes of the tile that begins at a row lies in the image."""
        down, across = self.windows.height, self.windows.width
        segment = self._segment(row) + number
        line, part = ir.floordiv(segment, self.segments), ir.floormod(segment, self.segments)
        x = across.index(part * self.pixels, ir.const(0)) * self.windows.shape[3] - self._shift
        y = down.index(ir.floormod(line, down.outputs), ir.const(0))
        return x, y, ir.floordiv(line, down.outputs)

    def box(self, number: int) -> int:
        """Where one of the boxes lies in shared memory."""
        return number * self._pitch

    def _segment(self, row: ir.PrimExpr) -> ir.PrimExpr:
        """The number of the segment of a row."""
        outputs = self.windows.width.outputs
        part = ir.floordiv(ir.floormod(row, outputs), self.pixels)
        return ir.floordiv(row, outputs) * self.segments + part

    # --- elements -------------------------------------------------------------------------------

    def address(self, first: ir.PrimExpr, row: ir.PrimExpr, depth: ir.PrimExpr) -> ir.PrimExpr:
        """Where the element of a row, in the tile that begins at `first`, lies in shared memory."""
        place = ir.floormod(ir.floormod(row, self.windows.width.outputs), self.pixels)
        box = self._segment(row) - self._segment(first)
        channel, across, down = self.windows.tap(depth)
        taps = down * self.width + across * self.windows.shape[3] + channel + self._shift
        start = ir.cast(UINT32, box * self._pitch + place * (self._step * self.itemsize))
        # Two parts: the compiler then knows which elements lie in the same word.
        return start + ir.cast(UINT32, taps * self.itemsize)


def ring_bytes(image: StagedImage | None) -> int:
    """Of the memory that images are staged in, with its barriers."""
    return 0 if image is None else _IMAGES * (image.bytes + 16)


@dataclass(frozen=True)
class ImageRing:
    """The memory of staged images: they take turns, and have barriers `full` and `empty` each."""

    image: StagedImage
    offset: int  # from the base of shared memory

    def start(self, base: ir.PrimExpr, gathering: int) -> Sequence[ir.Stmt]:
        """Start the barriers; `gathering` warps gather."""
        first = base + word(self.offset + _IMAGES * self.image.bytes)
        arrivals = [1] * _IMAGES + [gathering] * _IMAGES
        return [
            run("tw_barrier_start", first + word(8 * number), word(count))
            for number, count in enumerate(arrivals)
        ]

    def address(self, base: ir.PrimExpr, number: ir.Var) -> ir.PrimExpr:
        """Where the image of a tile lies; `number` counts the tiles of a block of threads."""
        return base + word(self.offset) + self._turn(number) * word(self.image.bytes)

    def stage(self, base: ir.PrimExpr, number: ir.Var, row: ir.PrimExpr) -> ir.Stmt:
        """Fetch the image of the tile that begins at a row."""
        image, full, to = self.image, self._full(base, number), self.address(base, number)
        loads = [
            run(
                "tw_load_3d",
                to + word(image.box(box)),
                image.map.var,
                full,
                *image.coordinates(row, box),
            )
            for box in range(image.boxes)
        ]
        is_free = bitwise_xor(self._lap(number), word(1))
        return ir.seq(
            [
                run("tw_barrier_wait", self._empty(base, number), is_free),
                run("tw_barrier_expect", full, word(image.boxes * image.box_bytes)),
                *loads,
            ]
        )

    def held(self, base: ir.PrimExpr, lane: ir.PrimExpr, number: ir.Var, body: ir.Stmt) -> ir.Stmt:
        """What a warp does while the image of a tile is there."""
        released = run("tw_barrier_arrive", self._empty(base, number))
        return ir.seq(
            [
                run("tw_barrier_wait", self._full(base, number), self._lap(number)),
                body,
                run("tw_warp_sync"),
                when(ir.equal(lane, 0), released),
            ]
        )

    def _turn(self, number: ir.Var) -> ir.PrimExpr:
        return ir.cast(UINT32, ir.floormod(number, _IMAGES))

    def _lap(self, number: ir.Var) -> ir.PrimExpr:
        return bitwise_and(ir.cast(UINT32, ir.floordiv(number, _IMAGES)), word(1))

    def _full(self, base: ir.PrimExpr, number: ir.Var) -> ir.PrimExpr:
        first = base + word(self.offset + _IMAGES * self.image.bytes)
        return first + self._turn(number) * word(8)

    def _empty(self, base: ir.PrimExpr, number: ir.Var) -> ir.PrimExpr:
        return self._full(base, number) + word(8 * _IMAGES)
