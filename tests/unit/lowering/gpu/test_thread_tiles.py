"""Tile kernels on plain cores, run thread by thread without a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import ir
from tilewright.lowering.gpu.tile_kernels.thread_tiles import ThreadTiles
from tilewright.lowering.gpu.tile_kernels.tile_form import read_tile_form, tile_loops
from tilewright.testing import simt
from tilewright.testing.gpu_lowering import lower_for_gpu, random_arrays
from tilewright.testing.oracle import run
from tilewright.testing.tile_programs import (
    THREAD_FORM,
    convolution,
    product,
    sketches_of,
    tile_func,
)

FLOAT = ("float32", "float32")


def sizes_of(func: ir.PrimFunc) -> ThreadTiles:
    (loop,) = tile_loops(func.body)
    return ThreadTiles.of(read_tile_form(loop))


def check(scheduled: ir.PrimFunc, expected: ir.PrimFunc) -> None:
    """The kernel leaves what the program says, and no two threads race."""
    found, wanted = (random_arrays(expected, are_whole=True) for _ in range(2))
    simt.run(lower_for_gpu(scheduled), found)
    run(expected, *wanted)
    np.testing.assert_array_equal(found[-1], wanted[-1])


def test_sizes() -> None:
    sizes = sizes_of(tile_func(THREAD_FORM))
    assert (sizes.tile, sizes.warps, sizes.threads) == ((8, 8), (1, 2), 64)
    assert (sizes.depth, sizes.pitches, sizes.stages) == (64, (68, 68), 2)


@pytest.mark.parametrize(("depth", "stages"), [(16, 4), (64, 2)])
def test_as_many_stages_as_there_is_room_for(depth: int, stages: int) -> None:
    text = THREAD_FORM.replace('tile_stages": 2', 'tile_stages": 0').replace("range(2)", "range(8)")
    text = text.replace("k * 64", f"k * {depth}").replace("range(8)", f"range({128 // depth})")
    changes = [
        ("T.grid(64, 64):\n                with T.block(\"left\")",
         f"T.grid(64, {depth}):\n                with T.block(\"left\")"),
        ("T.grid(64, 64):\n                with T.block(\"right\")",
         f"T.grid({depth}, 64):\n                with T.block(\"right\")"),
        ("T.grid(64, 64, 64)", f"T.grid(64, 64, {depth})"),
    ]  # fmt: skip
    assert sizes_of(tile_func(text, changes)).stages == stages


def test_the_form() -> None:
    func = tile_func(THREAD_FORM)
    check(func, func)


def test_more_threads_of_a_warp_along_the_shorter_side() -> None:
    text = THREAD_FORM.replace('thread_rows": 8', 'thread_rows": 16')
    sizes = sizes_of(tile_func(text))
    assert (sizes.lanes, sizes.warps) == ((4, 8), (1, 1))
    check(tile_func(text), tile_func(text))


@pytest.mark.parametrize(("slices", "dtype"), [(2, "float32"), (4, "float32"), (2, "float64")])
def test_slices(slices: int, dtype: str) -> None:
    columns = 4 if dtype == "float64" else 8
    tile = f'thread_columns": {columns}, "tilewright.thread_slices": {slices}'
    text = THREAD_FORM.replace('thread_columns": 8', tile).replace("float32", dtype)
    func = tile_func(text)
    sizes = sizes_of(func)
    assert sizes.threads == slices * sizes.tile_threads == slices * 64 * (8 // columns)
    check(func, func)


# Sizes that tiles divide; that they do not; that are smaller than a tile; of one row.
SHAPES = [
    (64, 64, 64), (36, 70, 20), (33, 35, 37), (3, 5, 7), (1, 64, 32), (64, 1, 5), (40, 9, 300)
]  # fmt: skip


@pytest.mark.parametrize(("shape", "number"), [*zip(SHAPES, (0, 1, 3, 6, 7, 2, 5), strict=True)])
def test_products(shape: tuple[int, int, int], number: int) -> None:
    func = product(shape, FLOAT)
    check(sketches_of(func, "ThreadTiling")[number].mod["main"], func)


@pytest.mark.parametrize(
    "func",
    [
        product((40, 24, 20), ("float64", "float64")),
        product((40, 24, 20), ("int32", "int32")),
        product((40, 24, 20), FLOAT, is_turned=True),
        product((40, 24, 20), FLOAT, result="float16"),
        product((20, 24, 20), FLOAT, [3]),
        product((20, 24, 20), FLOAT, [2, 2], is_turned=True),
        convolution((1, 8, 8, 6), (3, 3, 10), FLOAT, padding=1),
        convolution((2, 9, 7, 4), (3, 2, 8), FLOAT, stride=2, dilation=2),
        convolution((1, 8, 8, 6), (1, 1, 12), FLOAT),
    ],
    ids=[
        "float64",
        "int32",
        "turned",
        "float16 results",
        "batches",
        "two axes of batches",
        "padding",
        "stride",
        "1x1",
    ],
)
def test_other_programs(func: ir.PrimFunc) -> None:
    for sketch in sketches_of(func, "ThreadTiling")[:4:3]:
        check(sketch.mod["main"], func)
