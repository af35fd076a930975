"""Products of all types, in any order and of odd sizes, on a GPU without a search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.ir import DType, IntImm
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.runtime import cuda, ndarray as nd
from tilewright.testing.product_types import PRODUCT_TYPES
from tilewright.tune import default_schedule

pytestmark = pytest.mark.cuda


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    kind, generator = to_numpy(dtype), np.random.default_rng(seed)
    if DType(dtype).is_float:
        return generator.standard_normal(shape).astype(kind)
    return generator.integers(0 if dtype.startswith("u") else -8, 8, shape).astype(kind)


@pytest.mark.parametrize(
    ("sizes", "order"), [((200, 96, 272), "nt"), ((200, 96, 272), "tn"), ((77, 33, 51), "nn")]
)
@pytest.mark.parametrize("name", PRODUCT_TYPES)
def test_products(name: str, sizes: tuple[int, int, int], order: str) -> None:
    types = PRODUCT_TYPES[name]
    func = types.program(sizes, order)
    module = tw.build(default_schedule(func, "cuda").mod, "cuda")
    shapes = [
        tuple(int(extent.value) for extent in buffer.shape if isinstance(extent, IntImm))
        for buffer in func.buffer_map.values()
    ]
    left, right = (
        numbers(shape, dtype, seed)
        for seed, (shape, dtype) in enumerate(zip(shapes[:2], types[:2], strict=True))
    )
    out = nd.array(np.zeros(shapes[2], to_numpy(types.result)), cuda())
    module(nd.array(left, cuda()), nd.array(right, cuda()), out)
    a, b = (
        (each.T if way == "t" else each).astype(np.float64)
        for each, way in zip((left, right), order, strict=True)
    )
    wanted = a @ b
    allowed = types.tolerance * abs(wanted).max()
    np.testing.assert_allclose(out.numpy().astype(np.float64), wanted, rtol=0, atol=allowed)
