"""The estimate for GPUs puts what is obviously worse behind what is obviously better."""

from __future__ import annotations

import pytest

from tilewright import ir
from tilewright.cost_model.gpu_prior import estimate_on_gpu
from tilewright.schedule import Schedule
from tilewright.testing.space_generation import decisions_of, with_decisions
from tilewright.testing.tile_programs import H200, product, sketches_of

HALF, FLOAT = ("float16", "float32"), ("float32", "float32")


def seconds(func: ir.PrimFunc, sketch: Schedule, *choices: int) -> float:
    """Of a sketch with these choices: the width of a tile, the rows of tiles at a time, and the
    blocks that share a tile, as far as there is a choice; the first of what is left out."""
    kinds = [kind for kind, _ in decisions_of(sketch)]
    made = with_decisions(func, sketch, [*zip(kinds, (*choices, 0, 0), strict=False)])
    assert made is not None
    return estimate_on_gpu(made.mod["main"], H200)


def test_more_work_takes_longer() -> None:
    times = []
    for size in (512, 1024, 2048, 4096):
        func = product((size, size, size), HALF)
        times.append(seconds(func, sketches_of(func, "WarpGroupTiling")[2], 2, 0))
    assert times == sorted(times)
    assert times[3] > 4 * times[1]


def test_wide_tiles_for_large_products() -> None:
    func = product((4096, 4096, 4096), HALF)
    sketch = sketches_of(func, "WarpGroupTiling")[2]
    narrow, *_, wide = (seconds(func, sketch, width, 0) for width in range(7))
    assert wide < narrow


def test_many_small_tiles_for_small_products() -> None:
    func = product((256, 256, 4096), HALF)
    sketch = sketches_of(func, "WarpGroupTiling")[0]
    narrow, *_, wide = (seconds(func, sketch, width, 0) for width in range(7))
    assert narrow < wide


def test_no_rows_for_nothing() -> None:
    func = product((64, 4096, 4096), HALF)
    sketches = sketches_of(func, "WarpGroupTiling")
    assert seconds(func, sketches[0], 1, 0) <= seconds(func, sketches[3], 1, 0)


def test_few_tiles_are_shared_where_sums_are_long() -> None:
    long, short = product((128, 512, 8192), HALF), product((512, 512, 512), HALF)
    sketch = sketches_of(long, "WarpGroupTiling")[0]
    assert seconds(long, sketch, 1, 0, 3) < seconds(long, sketch, 1, 0, 0)
    sketch = sketches_of(short, "WarpGroupTiling")[0]
    assert seconds(short, sketch, 0, 0, 1) > seconds(short, sketch, 0, 0, 0)


def test_steps_are_shared_where_the_last_round_is_short() -> None:
    short, full = product((2304, 2304, 4096), HALF), product((1536, 4096, 512), HALF)
    sketch = sketches_of(short, "WarpGroupTiling")[2]  # 162 tiles, the widest
    assert seconds(short, sketch, 6, 0, 1) < 0.9 * seconds(short, sketch, 6, 0, 0)
    sketch = sketches_of(full, "WarpGroupTiling")[2]  # 264 tiles of 192 columns
    assert seconds(full, sketch, 4, 0, 1) == seconds(full, sketch, 4, 0, 0)
    few = product((1000, 1000, 1000), HALF)
    sketch = sketches_of(few, "WarpGroupTiling")[0]  # 128 tiles of few steps
    assert seconds(few, sketch, 3, 0, 0) < seconds(few, sketch, 3, 0, 1)


def test_short_rows_take_longer() -> None:
    times = []
    for is_turned in (True, False):  # of 96 columns: rows of 128 bytes, or of 64
        func = product((4096, 4096, 512), HALF, is_turned=is_turned)
        times.append(seconds(func, sketches_of(func, "WarpGroupTiling")[2], 1, 0))
    assert times[0] < times[1]


def test_tiles_that_share_operands_in_the_cache() -> None:
    func = product((8192, 8192, 256), HALF)
    sketch = sketches_of(func, "WarpGroupTiling")[0]
    assert seconds(func, sketch, 0, 3) <= seconds(func, sketch, 0, 0)


def test_larger_tiles_of_threads_for_large_products() -> None:
    func = product((4096, 4096, 4096), FLOAT)
    sketches = sketches_of(func, "ThreadTiling")
    assert seconds(func, sketches[-1], 1, 0) < seconds(func, sketches[0], 0, 0)


def test_smaller_tiles_of_threads_for_small_products() -> None:
    func = product((128, 128, 2048), FLOAT)
    sketches = sketches_of(func, "ThreadTiling")
    assert seconds(func, sketches[0], 0, 0) < seconds(func, sketches[-1], 0, 0)


def test_slices_for_a_long_sum_of_few_tiles() -> None:
    func = product((512, 512, 2048), FLOAT)
    sketches = sketches_of(func, "ThreadTiling")
    assert seconds(func, sketches[4], 0, 0) < seconds(func, sketches[2], 0, 0)


@pytest.mark.parametrize("size", [64, 1000])
def test_other_loops_count(size: int) -> None:
    func = product((size, 512, 512), ("int8", "int32"), is_turned=True, result="int8")
    plain = product((size, 512, 512), ("int8", "int32"), is_turned=True)
    with_cast = seconds(func, sketches_of(func, "WarpGroupTiling")[0], 0, 0)
    assert with_cast > seconds(plain, sketches_of(plain, "WarpGroupTiling")[0], 0, 0)
