"""Tile kernels on plain cores: every thread computes a small tile of the result in registers.

Here are their sizes; `thread_kernel.py` writes them. Threads of a block may share each step of the
sum in slices: then more of them are at work on a small tile, and their sums are added at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tilewright.lowering.gpu.tile_kernels.tile_form import TileForm, refused

WIDTH = 4  # elements that are loaded at once
_MOST_BYTES = 99 * 1024  # of shared memory: as much as all GPUs since sm_80 have
_MOST_STAGES = 4
_REGISTERS = 65536  # of a processor
_OTHER_REGISTERS = 100  # of a thread, beside its results
_MOST_THREADS = 1024
_RESULT_BYTES = 512  # in the registers of a thread: half of them


@dataclass(frozen=True)
class ThreadTiles:
    """A tile kernel with all sizes settled."""

    form: TileForm

    @staticmethod
    def of(form: TileForm) -> ThreadTiles:
        """The sizes for a form; refused where no such kernel exists."""
        made = ThreadTiles(form)
        rows, columns = made.tile
        dtype = form.sums.dtype
        if rows % WIDTH or columns % WIDTH or rows * columns * dtype.itemsize > _RESULT_BYTES:
            raise refused(
                f"a thread has {rows} x {columns} results of {dtype!s}, expected fours, at most "
                f"{_RESULT_BYTES} bytes"
            )
        high, wide = made.lanes
        if form.row.extent % (high * rows) or form.column.extent % (wide * columns):
            raise refused(f"its tile is not a number of warps of {high} x {wide} threads")
        if made.threads > _MOST_THREADS:
            raise refused(f"its tile takes {made.threads} threads, at most {_MOST_THREADS} exist")
        if made.depth % (2 * form.slices) or rows % form.slices:
            raise refused(
                f"{form.slices} slices do not divide a step of {made.depth} into even parts, or "
                f"{rows} rows"
            )
        if form.slices > 1 and rows * columns * dtype.itemsize > _RESULT_BYTES // 2:
            raise refused(
                f"a thread has {rows} x {columns} results of {dtype!s}, at most "
                f"{_RESULT_BYTES // 2} bytes are exchanged between slices"
            )
        if made.exchanged_bytes > _MOST_BYTES:
            raise refused(
                f"{form.slices} slices exchange {made.exchanged_bytes} bytes, at most "
                f"{_MOST_BYTES} are in shared memory"
            )
        for own in (each.copy.store.buffer.dtype for each in (form.left, form.right)):
            if own != dtype or dtype.bits not in (32, 64):
                raise refused(
                    f"products of {own!s} are summed in {dtype!s}, expected one type of 32 or 64 "
                    "bits"
                )
        return made

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a thread."""
        assert self.form.thread_tile is not None
        return self.form.thread_tile

    @property
    def lanes(self) -> tuple[int, int]:
        """Rows and columns of the threads of a warp: more of them along the shorter side."""
        return (4, 8) if self.tile[0] > self.tile[1] else (8, 4)

    @property
    def warps(self) -> tuple[int, int]:
        """Along the rows and the columns of a tile."""
        rows, columns = self.tile
        return (
            self.form.row.extent // (self.lanes[0] * rows),
            self.form.column.extent // (self.lanes[1] * columns),
        )

    @property
    def tile_threads(self) -> int:
        """Of a block, for one slice of each step of the sum."""
        return 32 * self.warps[0] * self.warps[1]

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.tile_threads * self.form.slices

    @property
    def depth(self) -> int:
        """Of a step."""
        return self.form.depth.extent

    @property
    def pitches(self) -> tuple[int, int]:
        """Elements from a row to the next one in shared memory; copies across rows collide less."""
        return self.form.row.extent + WIDTH, self.form.column.extent + WIDTH

    @property
    def exchanged_bytes(self) -> int:
        """Of shared memory, for sums that slices exchange at the end."""
        rows, columns = self.tile
        is_sliced = self.form.slices > 1
        return self.threads * rows * columns * self.form.sums.dtype.itemsize if is_sliced else 0

    @property
    def resident(self) -> int:
        """Blocks that share a processor; fewer leave more registers to each thread."""
        words = self.form.sums.dtype.itemsize // 4
        registers = words * self.tile[0] * self.tile[1] + _OTHER_REGISTERS
        return max(1, min(4, _REGISTERS // (self.threads * registers)))

    @cached_property
    def stages(self) -> int:
        """Steps of the sum in shared memory at a time."""
        size = self.depth * sum(self.pitches) * self.form.sums.dtype.itemsize
        room = max(2, min(_MOST_STAGES, _MOST_BYTES // size))
        return self.form.stages or room
