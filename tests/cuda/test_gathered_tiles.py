"""Tile kernels that gather, stage and keep their operands, on a real GPU."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import ir, te
from tilewright.native.cuda_driver import why_missing
from tilewright.runtime import cuda, ndarray as nd
from tilewright.target import Target
from tilewright.testing.gpu_lowering import Arrays, random_arrays
from tilewright.testing.te_workload import conv2d_nhwc
from tilewright.testing.tile_kernel_runs import convolved, ordered_product
from tilewright.testing.tile_programs import H200, sketches_of

pytestmark = pytest.mark.cuda
HALF, BYTES = ("float16", "float32", "float16"), ("int8", "int32", "int32")


@pytest.fixture(autouse=True)
def hopper() -> None:
    if not why_missing(0) and not str(Target("cuda").attrs["arch"]).startswith("sm_90"):
        pytest.skip("these kernels are for Hopper")


def on_gpu(func: ir.PrimFunc) -> list[Arrays]:
    """What each sketch of a function leaves in its arrays, in float64."""
    found = []
    for sketch in sketches_of(func, "WarpGroupTiling")[::2]:
        arrays = random_arrays(func, seed=3)
        here = [nd.array(each, cuda()) for each in arrays]
        tw.build(sketch.mod, H200)(*here)
        found.append([each.numpy().astype(np.float64) for each in here])
    assert found
    return found


@pytest.mark.parametrize(
    ("shape", "filters", "taps", "stride", "pad", "by"),
    [
        ((2, 40, 40, 3), 64, 7, 2, 3, 1),  # staged
        ((2, 37, 41, 3), 64, 3, 1, 1, 2),  # gathered
        ((3, 24, 24, 8), 32, 3, 2, 1, 1),
        ((2, 20, 20, 96), 40, 3, 1, 1, 1),
        ((4, 60, 60, 64), 64, 3, 1, 1, 1),  # weights stay
    ],
)
def test_convolutions(
    shape: tuple[int, int, int, int], filters: int, taps: int, stride: int, pad: int, by: int
) -> None:
    tensors = conv2d_nhwc(*shape, filters, taps, stride, pad, by, in_dtype="float16")
    for image, weight, found in on_gpu(te.create_prim_func(tensors)):
        wanted = convolved(image, weight, stride, pad, by)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * abs(wanted).max())


@pytest.mark.parametrize(
    ("sizes", "dtypes", "order"),
    [
        ((300, 72, 1001), HALF, "nn"),
        ((1300, 1067, 200), HALF, "nn"),
        ((300, 67, 200), BYTES, "nn"),
        ((301, 200, 96), HALF, "tn"),
        ((200, 64, 333), BYTES, "nt"),
        ((200, 64, 256), BYTES, "nn"),
        ((20000, 64, 256), HALF, "nn"),
    ],
    ids=str,
)
def test_products(sizes: tuple[int, int, int], dtypes: tuple[str, str, str], order: str) -> None:
    for left, right, found in on_gpu(ordered_product(sizes, dtypes, order)):
        a, b = (left.T if order[0] == "t" else left), (right.T if order[1] == "t" else right)
        wanted = a @ b
        tolerance = 0 if dtypes is BYTES else 2e-3 * abs(wanted).max()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)
