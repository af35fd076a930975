"""Tiles that blocks share, and sizes of any alignment, on a real GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import ir
from tilewright.ir.annotation_keys import STREAMED, TILE_SPLITS
from tilewright.lowering.gpu.tile_kernels.tile_form import tile_loops
from tilewright.runtime import cuda, ndarray as nd
from tilewright.testing.gpu_lowering import random_arrays
from tilewright.testing.tile_programs import product, sketches_of

pytestmark = pytest.mark.cuda
HALF = ("float16", "float32")


@pytest.fixture(autouse=True)
def hopper() -> None:
    if not str(tw.Target("cuda").attrs["arch"]).startswith("sm_90"):
        pytest.skip("this GPU has no warp groups")


def shared(func: ir.PrimFunc, splits: int) -> ir.PrimFunc:
    def loop(node: ir.For) -> ir.For:
        return ir.updated(node, annotations={**node.annotations, TILE_SPLITS: splits})

    tiles = [*tile_loops(func.body)]
    change = {ir.For: lambda node: loop(node) if node in tiles else node}
    return func.with_body(ir.rewrite(func.body, change))


def results(module: Any, arrays: list[Any]) -> Any:
    output = nd.array(np.full_like(arrays[-1], np.nan), cuda())
    module(*(nd.array(each, cuda()) for each in arrays[:-1]), output)
    return output.numpy()


@pytest.mark.parametrize("sizes", [(64, 512, 4096), (200, 136, 1000), (333, 77, 2001)])
@pytest.mark.parametrize("splits", [STREAMED, 1, 2, 4, 8])
def test_shared_tiles(sizes: tuple[int, int, int], splits: int) -> None:
    func = product(sizes, HALF, result="float16")
    arrays = random_arrays(func)
    exact = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)
    for sketch in sketches_of(func, "WarpGroupTiling"):
        module = tw.build(shared(sketch.mod["main"], splits), "cuda")
        found = results(module, arrays)
        np.testing.assert_allclose(found, exact, rtol=0, atol=2e-3 * abs(exact).max())
        np.testing.assert_array_equal(found, results(module, arrays))
