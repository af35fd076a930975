"""The emulator's bulk copies and products agree on every layout of tiles in shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.testing.simt import RaceError
from tilewright.testing.simt.products import TileProduct, Wgmma
from tilewright.testing.simt.shared_memory import Barrier, SharedMemory
from tilewright.testing.simt.tensor_maps import TiledCopyMap, WindowCopyMap

MODES = {0: 0, 128: 1, 64: 2, 32: 3}
START, ROOM = 1024, 64 * 1024


def fetched(
    shared: SharedMemory, source: Any, box: tuple[int, int], start: int, swizzle: int
) -> int:
    """Copy a matrix of 16-bit numbers by boxes of some columns; the address after them."""
    rows, columns = source.shape
    numbers = [2, columns, rows, columns * 2, *box, swizzle]
    copies = TiledCopyMap(source.reshape(-1).view(np.uint8), 2, numbers)
    for first in range(0, columns, box[0]):
        places = copies.shared_addresses(start)
        shared.begin_copy(places)
        shared.end_copy(places, copies.read([first, 0]), (0, 0))
        start += copies.box_bytes
    return start


def descriptor(address: int, leading: int, stride: int, swizzle: int) -> int:
    return address >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | MODES[swizzle] << 62


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_layouts_of_tiles(swizzle: int, is_turned: bool) -> None:
    rng = np.random.default_rng(swizzle)
    left, right = (rng.integers(-8, 9, (rows, 16)).astype(np.float16) for rows in (64, 128))
    shared, descriptors, at = SharedMemory(ROOM, START), [], START
    for tile in (left, right):
        stored = np.ascontiguousarray(tile.T) if is_turned else tile
        width = swizzle or 16
        box = min(width // 2, stored.shape[1]), stored.shape[0]
        if is_turned:
            offsets = (16 * width, 8 * width) if swizzle else (128, 16 * 16)
        else:
            offsets = (16, 8 * width) if swizzle else (len(tile) * 16, 128)
        if width // 2 > stored.shape[1]:  # rows of the pattern are wider than the tile
            stored, box = np.pad(stored, ((0, 0), (0, width // 2 - 16))), (width // 2, box[1])
        descriptors.append(descriptor(at, *offsets, swizzle))
        at = -(-fetched(shared, stored, box, at, swizzle) // 1024) * 1024
    wgmma = Wgmma(128, "f32", ("f16", "f16"), (is_turned, is_turned))
    made = TileProduct(wgmma, (descriptors[0], descriptors[1]))
    made.begin(shared)
    expected = left.astype(np.float32) @ right.T.astype(np.float32)
    for warp in range(4):
        found = made.rows_of(warp, shared)
        for lane, register in np.ndindex(found.shape):
            row = 16 * warp + lane // 4 + 8 * (register // 2 % 2)
            column = 8 * (register // 4) + 2 * (lane % 4) + register % 2
            assert found[lane, register] == expected[row, column]


def test_copies_read_zeros_and_write_nothing_outside_of_the_array() -> None:
    array = np.arange(5 * 8, dtype=np.float32).reshape(5, 8)
    copies = TiledCopyMap(array.reshape(-1).view(np.uint8), 4, [2, 8, 5, 32, 8, 4, 0])
    found = copies.read([4, 3]).view(np.float32).reshape(4, 8)
    assert np.array_equal(found[:2, :4], array[3:, 4:])
    assert not found[2:].any()
    assert not found[:, 4:].any()
    before = array.copy()
    copies.write([-4, -3], np.full(4 * 8 * 4, 0xFF, np.uint8))
    assert np.isnan(array[0, :4]).all()
    assert np.array_equal(array[1:], before[1:])
    assert np.array_equal(array[0, 4:], before[0, 4:])


def test_windows_run_over_rows_and_images() -> None:
    images = np.arange(2 * 3 * 4 * 8, dtype=np.float16).reshape(2, 3, 4, 8)
    # 3 x 3 windows with padding 1 and stride 2: 2 x 2 of them an image.
    numbers = [8, 4, 3, 2, -1, -1, -2, -1, 8, 6, 2, 2]
    copies = WindowCopyMap(images.reshape(-1).view(np.uint8), 2, numbers)
    found = copies.read([0, 1, 1, 0, 2, 1]).view(np.float16).reshape(6, 8)
    padded = np.pad(images, ((0, 1), (1, 1), (1, 1), (0, 0)))
    places = [(0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1), (2, 0, 0)]
    for pixel, (n, p, q) in zip(found, places, strict=True):
        assert np.array_equal(pixel, padded[n, 2 * p + 1, 2 * q + 2])


def test_phases_of_a_barrier() -> None:
    barrier = Barrier(2, "warp 0")
    assert barrier.has_ended(1)
    assert not barrier.has_ended(0)
    barrier.arrive(256)
    barrier.complete(128, 0)
    barrier.arrive()
    assert not barrier.has_ended(0)
    assert str(barrier) == "0 arrivals and 128 bytes are missing"
    barrier.complete(128, 0)
    assert barrier.has_ended(0)
    assert not barrier.has_ended(1)
    with pytest.raises(RaceError, match="lands after the phase"):
        barrier.complete(128, 0)
