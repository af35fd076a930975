"""Tile kernels compute what NumPy does, in whichever order their warps take turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import ir, te
from tilewright.ir.annotation_keys import TILE_STAGES
from tilewright.target import Target
from tilewright.testing.te_workload import conv2d_nhwc
from tilewright.testing.tile_kernel_runs import hopper, ordered_product, results, tile_kernel

F16, HALF = ("float16", "float32", "float32"), ("float16", "float32", "float16")
BF16, INT8 = ("bfloat16", "float32", "bfloat16"), ("int8", "int32", "int32")
# How far results may be from exact ones, as a part of the largest of them.
_TOLERANCE = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 8e-3, "int32": 0.0}


def check(func: ir.PrimFunc, module: ir.IRModule, expected: Any, seed: int = 0) -> None:
    found, arrays = results(func, module, seed)
    wanted = expected(*arrays)
    dtype = str([*func.buffer_map.values()][-1].dtype)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=_TOLERANCE[dtype] * abs(wanted).max())


def multiplied(order: str, bias: bool = False) -> Any:
    def expected(left: Any, right: Any, shift: Any = 0) -> Any:
        a, b = (
            each.T if way == "t" else each for each, way in zip((left, right), order, strict=True)
        )
        return np.maximum(a @ b + shift, 0) if bias else a @ b

    return expected


@pytest.mark.parametrize("sketch", range(4))
@pytest.mark.parametrize(
    ("sizes", "dtypes", "order"),
    [
        ((128, 64, 128), F16, "nn"),
        ((200, 72, 136), HALF, "nn"),  # nothing divides
        ((136, 88, 72), BF16, "nt"),
        ((72, 264, 64), HALF, "tn"),  # one step
        ((64, 96, 200), F16, "tt"),
        ((200, 48, 144), INT8, "nt"),
        ((8, 16, 24), F16, "nn"),  # smaller than any tile
    ],
    ids=str,
)
def test_products_on_warp_groups(
    sizes: tuple[int, int, int], dtypes: tuple[str, str, str], order: str, sketch: int
) -> None:
    func = ordered_product(sizes, dtypes, order)
    check(func, tile_kernel(func, hopper(2), sketch), multiplied(order), seed=sketch)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_products_of_8_bit_floats(dtype: str) -> None:
    func = ordered_product((72, 48, 144), (dtype, "float32", "float32"), "nt")
    check(func, tile_kernel(func, hopper()), multiplied("nt"))


@pytest.mark.parametrize("stages", [2, 3, 8])
@pytest.mark.parametrize("processors", [1, 3])
def test_stages_are_a_ring_over_all_tiles_of_a_block(stages: int, processors: int) -> None:
    func = ordered_product((136, 200, 328), F16)
    module = tile_kernel(func, hopper(processors), annotations={TILE_STAGES: stages})
    assert f"output_map, {processors}, 256, " in str(module["main"])  # blocks and threads
    check(func, module, multiplied("nn"), seed=stages)


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_turns_gives_the_same(seed: int) -> None:
    func = ordered_product((128, 128, 256), F16)
    module = tile_kernel(func, hopper(1), annotations={TILE_STAGES: 2})
    check(func, module, multiplied("nn"), seed)


@pytest.mark.parametrize("sketch", range(2))
@pytest.mark.parametrize("dtypes", [F16, HALF])
def test_bias_and_relu_are_done_on_the_way_out(dtypes: tuple[str, str, str], sketch: int) -> None:
    func = ordered_product((136, 72, 128), dtypes, bias=True)
    module = tile_kernel(func, hopper(2), sketch)
    assert len(module.functions) == 2  # the host, and one kernel
    check(func, module, multiplied("nn", bias=True), seed=sketch)


@pytest.mark.parametrize("sketch", [0, -1])
@pytest.mark.parametrize(
    ("sizes", "order", "bias"),
    [
        ((64, 64, 64), "nn", False),
        ((70, 90, 50), "nn", True),  # nothing divides, and tiles are larger
        ((33, 130, 7), "nt", False),
        ((130, 65, 40), "tn", False),
    ],
    ids=str,
)
def test_products_on_threads(
    sizes: tuple[int, int, int], order: str, bias: bool, sketch: int
) -> None:
    func = ordered_product(sizes, ("float32", "float32", "float32"), order, bias)
    module = tile_kernel(func, Target("nvidia/nvidia-h200"), sketch, "ThreadTiling")
    check(func, module, multiplied(order, bias))


# --- convolutions --------------------------------------------------------------------------------


def convolved(image: Any, weight: Any, stride: int, pad: int, dilation: int = 1) -> Any:
    """The convolution of an NHWC image with an RSCK filter."""
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    taps_down, taps_across = weight.shape[:2]
    rows = (padded.shape[1] - dilation * (taps_down - 1) - 1) // stride + 1
    columns = (padded.shape[2] - dilation * (taps_across - 1) - 1) // stride + 1
    found = np.zeros((len(image), rows, columns, weight.shape[3]))
    for r, s in np.ndindex(taps_down, taps_across):
        y, x = r * dilation, s * dilation
        part = padded[:, y : y + stride * rows : stride, x : x + stride * columns : stride]
        found += part[:, :rows, :columns] @ weight[r, s]
    return found


@pytest.mark.parametrize("sketch", range(2))
@pytest.mark.parametrize(
    ("shape", "filters", "kernel", "stride", "pad", "dilation"),
    [
        ((2, 9, 11, 64), 48, 3, 2, 1, 1),
        ((3, 7, 5, 64), 32, 3, 1, 1, 1),
        ((1, 12, 12, 64), 64, 3, 1, 2, 2),
        ((2, 8, 8, 128), 40, 1, 1, 0, 1),
    ],
)
def test_convolutions(
    shape: tuple[int, int, int, int],
    filters: int,
    kernel: int,
    stride: int,
    pad: int,
    dilation: int,
    sketch: int,
) -> None:
    func = te.create_prim_func(
        conv2d_nhwc(*shape, filters, kernel, stride, pad, dilation, in_dtype="float16")
    )
    module = tile_kernel(func, hopper(2), sketch)
    check(func, module, lambda x, w: convolved(x, w, stride, pad, dilation), seed=sketch)
