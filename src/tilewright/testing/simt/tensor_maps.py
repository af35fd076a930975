"""Tensor maps: which elements of an array in global memory a bulk copy reads or writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilewright.testing.simt.threads import Array, RaceError

# Bits of the address of a chunk of 16 bytes that are mixed with those of its row, by pattern.
_MIXED = {0: 0, 32: 1, 64: 3, 128: 7}


def swizzled(addresses: Array, width: int) -> Array:
    """Where bytes lie in shared memory, in the pattern for rows of `width` bytes."""
    mixed: Array = addresses ^ ((addresses >> 7 & _MIXED[width]) << 4)
    return mixed


class CopyMap:
    """An array as bulk copies see it; `numbers` are those of the call that makes the map."""

    swizzle = 128
    box_bytes: int

    is_rounded = False  # to tf32, when it is read

    def __init__(self, memory: Array, size: int) -> None:
        self._memory = memory
        self._size = size

    def places(self, coordinates: Sequence[int]) -> tuple[Array, Array]:
        """Offsets in memory of all elements of a box, and which of them exist."""
        raise NotImplementedError

    def shared_addresses(self, start: int) -> Array:
        """Where the bytes of a box lie in shared memory."""
        if start % 128:
            raise RaceError(f"a bulk copy uses address {start}, which is no multiple of 128")
        return swizzled(start + np.arange(self.box_bytes), self.swizzle)

    def read(self, coordinates: Sequence[int]) -> Array:
        """The bytes of a box: zeros outside of the array."""
        at, inside = self._bytes(coordinates)
        found = np.zeros(at.shape, np.uint8)
        found[inside] = self._memory[at[inside]]
        data = found.reshape(-1)
        return rounded_to_tf32(data.view(np.float32)).view(np.uint8) if self.is_rounded else data

    def write(self, coordinates: Sequence[int], data: Array) -> None:
        """Put the bytes of a box into the array; those outside of it are dropped."""
        at, inside = self._bytes(coordinates)
        self._memory[at[inside]] = data.reshape(at.shape)[inside]

    def _bytes(self, coordinates: Sequence[int]) -> tuple[Array, Array]:
        offsets, inside = self.places(coordinates)
        at = offsets.reshape(-1, 1) + np.arange(self._size)
        if np.any(at[inside.reshape(-1)] >= len(self._memory)):
            raise RaceError("a tensor map reaches over the end of its array")
        return at, inside.reshape(-1)


def rounded_to_tf32(values: Array) -> Array:
    """Numbers with the 11 digits of tf32; those between two go to the one further from zero."""
    words = np.ascontiguousarray(values).view(np.uint32)
    rounded: Array = ((words + 0x1000) & 0xFFFFE000).astype(np.uint32).view(np.float32)
    return rounded


class TiledCopyMap(CopyMap):
    """Boxes of an array; dimensions begin with the contiguous one."""

    def __init__(self, memory: Array, size: int, numbers: Sequence[int]) -> None:
        super().__init__(memory, size)
        rank, *rest = numbers
        self._sizes, self._boxes = rest[:rank], rest[2 * rank - 1 : -1]
        self._strides = [size, *rest[rank : 2 * rank - 1]]
        self.swizzle = rest[-1]
        self.box_bytes = int(np.prod(self._boxes)) * size
        if any(stride % 16 for stride in self._strides[1:]) or max(self._boxes) > 256:
            raise RaceError(f"no tensor map has strides {self._strides} and a box {self._boxes}")

    def places(self, coordinates: Sequence[int]) -> tuple[Array, Array]:
        """The box that begins at the coordinates."""
        offsets, inside = np.zeros((), np.int64), np.ones((), np.bool_)
        numbers = zip(coordinates, self._boxes, self._sizes, self._strides, strict=True)
        for first, count, size, stride in reversed([*numbers]):
            index = first + np.arange(count)
            offsets = offsets[..., None] + index * stride
            inside = inside[..., None] & (index >= 0) & (index < size)
        return offsets, inside


class WindowCopyMap(CopyMap):
    """Windows of images in the order NHWC (im2col); positions run along width, height, images."""

    def __init__(self, memory: Array, size: int, numbers: Sequence[int]) -> None:
        super().__init__(memory, size)
        self._shape = numbers[:4]  # channels, width, height, images
        self._lower, upper = numbers[4:6], numbers[6:8]
        self._channels, self._pixels = numbers[8:10]
        self._steps = numbers[10:12]
        self._counts = [
            (extent + last - first - 1) // step + 1
            for extent, first, last, step in zip(
                self._shape[1:3], self._lower, upper, self._steps, strict=True
            )
        ]
        self.box_bytes = self._channels * self._pixels * size

    def places(self, coordinates: Sequence[int]) -> tuple[Array, Array]:
        """The same tap of windows that follow each other."""
        c, w, h, n, *taps = coordinates
        channels, width, height, images = self._shape
        columns, rows = self._counts
        first = (n * rows + self._number(h, 1)) * columns + self._number(w, 0)
        window = first + np.arange(self._pixels)
        x = window % columns * self._steps[0] + self._lower[0] + taps[0]
        y = window // columns % rows * self._steps[1] + self._lower[1] + taps[1]
        image = window // (columns * rows)
        inside = (x >= 0) & (x < width) & (y >= 0) & (y < height) & (image < images)
        channel = c + np.arange(self._channels)
        pixel = ((image * height + y) * width + x)[:, None] * channels
        return (pixel + channel) * self._size, inside[:, None] & (channel < channels)

    def _number(self, position: int, axis: int) -> int:
        """Of a window, from where it begins."""
        number, rest = divmod(position - self._lower[axis], self._steps[axis])
        if rest or not 0 <= number < self._counts[axis]:
            raise RaceError(f"no window begins at {position}")
        return number


# Calls of host code that make maps.
MAPS: Mapping[str, Callable[[Array, int, Sequence[int]], CopyMap]] = {
    "tw_tensor_map": TiledCopyMap,
    "tw_window_map": WindowCopyMap,
}
