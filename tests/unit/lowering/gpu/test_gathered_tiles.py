"""Operands that threads gather, and operands that stay in shared memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tilewright import ir, te
from tilewright.ir.annotation_keys import ALLOW_TF32, TILE_SPLITS
from tilewright.lowering.gpu.tile_kernels.gathering import Gathering
from tilewright.lowering.gpu.tile_kernels.tile_form import read_tile_form, tile_loops
from tilewright.space.gpu.tile_rule import Way
from tilewright.space.gpu.warp_group_tiling import GATHERING_SHAPES, WarpGroupTiling
from tilewright.testing.simt import RaceError
from tilewright.testing.simt.tensor_maps import rounded_to_tf32
from tilewright.testing.te_workload import conv2d_nhwc
from tilewright.testing.tile_kernel_runs import (
    convolved,
    hopper,
    ordered_product,
    results,
    tile_kernel,
    with_calls,
)
from tilewright.testing.tile_programs import convolution, product, sketches_of

HALF, BYTES = ("float16", "float32"), ("int8", "int32")
Shape = tuple[int, int, int, int]


def width_of(module: ir.IRModule) -> int:
    """Bytes that one load of a gathering thread brings."""
    found = re.search(r'"tw_(?:gather|take)_(\d+)"', str(module))
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize(
    ("shape", "filters", "taps", "stride", "pad", "by", "width"),
    [
        ((2, 9, 11, 3), 16, 3, 2, 1, 1, 2),
        ((1, 12, 12, 3), 64, 7, 2, 3, 1, 2),  # three steps, the last one not full
        ((1, 10, 9, 4), 24, 3, 1, 1, 1, 8),
        ((2, 8, 8, 6), 32, 3, 1, 2, 2, 4),
        ((1, 9, 9, 8), 24, 3, 1, 0, 1, 16),
        ((1, 30, 20, 2), 16, 5, 10, 2, 1, 4),  # farther than bulk copies can go
    ],
)
@pytest.mark.parametrize("sketch", [0, 3, 5])
def test_convolutions_of_few_channels(
    shape: Shape, filters: int, taps: int, stride: int, pad: int, by: int, width: int, sketch: int
) -> None:
    tensors = conv2d_nhwc(*shape, filters, taps, stride, pad, by, in_dtype="float16")
    func = te.create_prim_func(tensors)
    module = tile_kernel(func, hopper(2), sketch)
    assert width_of(module) == width
    found, (image, weight) = results(func, module, seed=sketch)
    wanted = convolved(image, weight, stride, pad, by)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * abs(wanted).max())


@pytest.mark.parametrize("sketch", [0, 5])
@pytest.mark.parametrize(
    ("dtypes", "image", "filters"),
    [
        (BYTES, (1, 9, 10, 3), 16),
        (BYTES, (1, 8, 16, 5), 33),  # staged; threads write the results
        (("float8_e4m3fn", "float32"), (1, 9, 10, 6), 16),
        (HALF, (1, 9, 10, 3), 33),
    ],
)
def test_windows_of_any_type(
    dtypes: tuple[str, str], image: Shape, filters: int, sketch: int
) -> None:
    func = convolution(image, (5, 5, filters), dtypes, padding=2)
    found, (left, right) = results(func, tile_kernel(func, hopper(2), sketch), seed=sketch)
    wanted = convolved(left, right, 1, 2)
    # Tensor cores keep 14 digits of what 128 products of 8-bit floats add up to.
    tolerance = 2e-4 if dtypes[0].startswith("float8") else 1e-5
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * abs(wanted).max())


@pytest.mark.parametrize("sketch", [0, 5])
@pytest.mark.parametrize("channels", [3, 4])
def test_what_is_gathered_is_rounded_to_tf32(channels: int, sketch: int) -> None:
    image = (1, 9, 10, channels)
    func = convolution(image, (5, 5, 16), ("float32", "float32"), padding=2)
    module = tile_kernel(func.with_attr(ALLOW_TF32, True), hopper(2), sketch)
    assert "tw_tf32" in str(module)
    found, arrays = results(func, module, seed=sketch)
    left, right = (rounded_to_tf32(each.astype("float32")).astype("float64") for each in arrays)
    wanted = convolved(left, right, 1, 2)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * abs(wanted).max())


@pytest.mark.parametrize("sketch", [0, 5])
@pytest.mark.parametrize(
    ("image", "filters", "splits"), [((1, 9, 10, 3), 32, 2), ((1, 8, 16, 3), 33, 4)]
)
def test_blocks_share_the_sums_of_windows(
    image: Shape, filters: int, splits: int, sketch: int
) -> None:
    func = convolution(image, (9, 9, filters), HALF, padding=4)
    module = tile_kernel(func, hopper(2), sketch, annotations={TILE_SPLITS: splits})
    assert "tw_cluster_barrier" in str(module)
    found, (left, right) = results(func, module, seed=sketch)
    wanted = convolved(left, right, 1, 4)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * abs(wanted).max())


@pytest.mark.parametrize("sketch", [0, 2])
@pytest.mark.parametrize(
    ("sizes", "dtypes", "order", "width"),
    [
        ((136, 64, 77), HALF, "nn", 2),
        ((70, 72, 134), HALF, "nt", 4),
        ((67, 64, 72), HALF, "tn", 2),  # rows of the left operand are not aligned
        ((70, 48, 70), BYTES, "nn", 1),
        ((200, 48, 100), BYTES, "nt", 4),
        ((70, 67, 64), HALF, "nn", 2),  # rows of the result are not aligned
        ((70, 67, 64), BYTES, "nn", 1),
    ],
    ids=str,
)
def test_products_with_rows_that_begin_anywhere(
    sizes: tuple[int, int, int],
    dtypes: tuple[str, str],
    order: str,
    width: int,
    sketch: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(WarpGroupTiling, "ways", (Way(GATHERING_SHAPES),))
    func = ordered_product(sizes, (*dtypes, dtypes[1]), order)
    module = tile_kernel(func, hopper(2), sketch)
    assert width_of(module) == width
    found, (left, right) = results(func, module, seed=sketch)
    wanted = (left.T if order[0] == "t" else left) @ (right.T if order[1] == "t" else right)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * abs(wanted).max())


@pytest.mark.parametrize(
    ("func", "width", "is_along_rows"),
    [
        (convolution((1, 16, 16, 3), (3, 3, 64), HALF), 1, True),
        (convolution((1, 16, 16, 8), (3, 3, 64), HALF), 8, True),
        (convolution((1, 16, 16, 40), (3, 3, 64), HALF), 8, False),
        (product((64, 64, 77), HALF), 1, False),
        (product((64, 64, 78), HALF), 2, False),
    ],
)
def test_neighbouring_threads_read_what_is_near(
    func: ir.PrimFunc, width: int, is_along_rows: bool
) -> None:
    (sketch, *_) = sketches_of(func, "WarpGroupTiling")
    (loop,) = tile_loops(sketch.mod["main"].body)
    gathering = Gathering(read_tile_form(loop).left)
    assert (gathering.width(), gathering._is_along_rows()) == (width, is_along_rows)
    assert gathering.loads == 64 * 64 // 32 // width


@pytest.mark.parametrize("sketch", [0, 2])
@pytest.mark.parametrize("result", ["float16", "float32"])
def test_results_that_threads_write(result: str, sketch: int) -> None:
    func = ordered_product((70, 67, 64), (*HALF, result), "nt", bias=True)
    module = tile_kernel(func, hopper(2), sketch)
    assert "tw_gather" not in str(module)
    found, (left, right, shift) = results(func, module, seed=sketch)
    wanted = np.maximum(left @ right.T + shift, 0)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-3 * abs(wanted).max())


# --- order ---------------------------------------------------------------------------------------

FUNC = te.create_prim_func(conv2d_nhwc(1, 20, 20, 3, 16, 5, 1, 2, 1, in_dtype="float16"))


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_turns_gives_the_same(seed: int) -> None:
    found, (image, weight) = results(FUNC, tile_kernel(FUNC, hopper(1), 3), seed)
    np.testing.assert_allclose(found, convolved(image, weight, 1, 2, 1), atol=1e-4)


def test_what_is_gathered_is_fenced() -> None:
    module = tile_kernel(FUNC, hopper(1), 3)
    unfenced = with_calls(
        module, "tw_fence_async_shared", lambda call, number: None if number == 0 else call
    )
    with pytest.raises(RaceError, match="written without a fence"):
        results(FUNC, unfenced)


# --- operands that stay --------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", range(4))
@pytest.mark.parametrize("order", ["nn", "nt"])
def test_a_right_operand_is_brought_once(order: str, sketch: int) -> None:
    func = ordered_product((700, 32, 136), (*HALF, "float16"), order)
    module = tile_kernel(func, hopper(2), sketch)
    found, (left, right) = results(func, module, seed=sketch)
    wanted = left @ (right.T if order == "nt" else right)
    np.testing.assert_allclose(found, wanted, atol=1e-3 * abs(wanted).max())
    once = str(module).split('"tw_barrier_wait"')[0]
    assert once.count("right_map") > 1  # ahead of all tiles


def test_nobody_multiplies_before_the_right_operand_is_there() -> None:
    func = ordered_product((300, 32, 136), (*HALF, "float16"))
    module = tile_kernel(func, hopper(1))
    waits = str(module).count('"tw_barrier_wait"')
    assert waits == 3
    early = with_calls(
        module, "tw_barrier_wait", lambda call, number: None if number == 1 else call
    )
    with pytest.raises(RaceError, match="have not landed"):
        results(func, early, seed=0)
