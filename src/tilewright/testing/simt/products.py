"""Products of tiles in shared memory (`wgmma`), which a warp group starts and later waits for."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np

from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.simt.shared_memory import SharedMemory
from tilewright.testing.simt.tensor_maps import swizzled
from tilewright.testing.simt.threads import Array, RaceError

_DTYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "s8": "int8",
    "u8": "uint8",
    "f32": "float32",
    "tf32": "float32",
    "s32": "int32",
}
_WIDTHS = {0: 0, 1: 128, 2: 64, 3: 32}  # of patterns, by their number in a descriptor
ROWS = 64
WARPS = 4  # of a group


@functools.cache
def tile_addresses(descriptor: int, rows: int, size: int, is_turned: bool) -> Array:
    """Addresses of the bytes of a tile, by row (or column), element along the sum, byte."""
    start, leading, stride = (((descriptor >> at) & 0x3FFF) << 4 for at in (0, 16, 32))
    width = _WIDTHS[descriptor >> 62]
    row, depth = np.arange(rows)[:, None, None], np.arange(32 // size)[:, None]
    byte = np.arange(size)
    if is_turned:
        # Elements that follow each other are of neighbouring rows; without a pattern the roles of
        # both distances are swapped.
        panel = (width or 16) // size
        far, near = (leading, stride) if width else (stride, leading)
        at = row // panel * far + depth // 8 * near + depth % 8 * panel * size + row % panel * size
        return swizzled(start + at + byte, width)
    within = depth * size + byte
    at = row // 8 * stride + row % 8 * (width or 16)
    return swizzled(start + at + (within if width else within // 16 * leading + within % 16), width)


@dataclass(frozen=True)
class Wgmma:
    """What a `wgmma` does, but where its tiles are."""

    columns: int
    sums: str
    types: tuple[str, str]
    turned: tuple[bool, bool]

    def tiles(self, descriptors: tuple[int, int]) -> tuple[Array, Array]:
        """Addresses of both tiles."""
        left, right = (
            tile_addresses(descriptor, rows, to_numpy(_DTYPES[kind]).itemsize, turned)
            for descriptor, rows, kind, turned in zip(
                descriptors, (ROWS, self.columns), self.types, self.turned, strict=True
            )
        )
        return left, right

    def result(self, left: Array, right: Array) -> Array:
        """The product of two tiles, from their bytes."""
        sums = to_numpy(_DTYPES[self.sums])
        a, b = (
            _numbers(data, kind).astype(sums)
            for data, kind in zip((left, right), self.types, strict=True)
        )
        product: Array = a @ b.T
        return product

    def kept(self, sums: Array) -> Array:
        """Sums as tensor cores keep them: the first 14 digits of those of 8-bit floats."""
        if self.types[0] not in ("e4m3", "e5m2"):
            return sums
        words = np.ascontiguousarray(sums).view(np.uint32) & 0xFFFFFC00
        cut: Array = words.view(np.float32)
        return cut


def _numbers(data: Array, kind: str) -> Array:
    """The elements of a tile; of float32 the first digits count."""
    if kind == "tf32":
        data = (np.ascontiguousarray(data).view(np.uint32) & 0xFFFFE000).view(np.uint8)
    found: Array = np.ascontiguousarray(data).view(to_numpy(_DTYPES[kind]))[:, :, 0]
    return found


@dataclass
class TileProduct:
    """One `wgmma` of a warp group: it reads when the first warp waits for it."""

    instruction: Wgmma
    descriptors: tuple[int, int]
    warps: int = 0  # that have started it
    _result: Array | None = None

    def begin(self, shared: SharedMemory) -> None:
        """From now on the tiles may be read."""
        for tile in self.instruction.tiles(self.descriptors):
            shared.begin_read(tile, "wgmma")

    def rows_of(self, warp: int, shared: SharedMemory) -> Array:
        """The results of a warp: those of each lane in its registers' order."""
        if self._result is None:
            tiles = self.instruction.tiles(self.descriptors)
            left, right = (shared.end_read(tile, "wgmma") for tile in tiles)
            self._result = self.instruction.result(left, right)
        own = self._result[16 * warp : 16 * warp + 16]
        # Rows are 2 halves of 8; columns 4 pairs in each 8.
        parts = own.reshape(2, 8, -1, 4, 2).transpose(1, 3, 2, 0, 4)
        found: Array = parts.reshape(32, -1)
        return found


@dataclass(eq=False)
class WarpGroup:
    """The products of four warps, in the order in which each of them starts them."""

    shared: SharedMemory
    products: list[TileProduct] = field(default_factory=list)

    def start(self, number: int, product: TileProduct) -> TileProduct:
        """A warp starts the product of that number."""
        if number == len(self.products):
            self.products.append(product)
            product.begin(self.shared)
        found = self.products[number]
        if (found.instruction, found.descriptors) != (product.instruction, product.descriptors):
            raise RaceError("the warps of a group multiply different tiles")
        found.warps += 1
        return found
