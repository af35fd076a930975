"""What is added to each result of a tile kernel is fetched before the sums are there."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import ir, te, topi
from tilewright.testing.gpu_lowering import random_arrays
from tilewright.testing.simt import run
from tilewright.testing.tile_kernel_runs import hopper, tile_kernel


def sum_with(
    sizes: tuple[int, int, int], *, shape: str = "mn", dtype: str = "float16"
) -> ir.PrimFunc:
    """`relu(left @ right + bias + other)`; `other` has the axes of `shape`."""
    m, n, k = sizes
    left, right = te.placeholder((m, k), "float16", "L"), te.placeholder((k, n), "float16", "R")
    bias = te.placeholder((n,), dtype, "bias")
    extents = {"mn": (m, n), "m1": (m, 1), "nm": (n, m)}[shape]
    other = te.placeholder(extents, dtype, "other")
    product = topi.nn.matmul(left, right, out_dtype=dtype)
    turned = topi.transpose(other) if shape == "nm" else other
    return te.create_prim_func(
        [left, right, bias, other, topi.nn.relu(topi.add(topi.add(product, bias), turned))]
    )


def check(func: ir.PrimFunc, module: ir.IRModule, shape: str = "mn") -> None:
    arrays = random_arrays(func)
    run(module, arrays)
    left, right, bias, other, found = (each.astype(np.float64) for each in arrays)
    added = other.T if shape == "nm" else other
    wanted = np.maximum(left @ right + bias + added, 0)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-3 * abs(wanted).max())


@pytest.mark.parametrize("sketch", range(4))
@pytest.mark.parametrize("sizes", [(128, 64, 128), (200, 72, 136)], ids=str)
def test_operands_of_the_same_shape(sizes: tuple[int, int, int], sketch: int) -> None:
    func = sum_with(sizes)
    module = tile_kernel(func, hopper(2), sketch)
    assert "other_ahead" in str(module)
    check(func, module)


@pytest.mark.parametrize("shape", ["m1", "nm"])
def test_operands_of_other_shapes_are_read_when_they_are_needed(shape: str) -> None:
    func = sum_with((128, 64, 64), shape=shape)
    module = tile_kernel(func, hopper(2), 0)
    assert "_ahead" not in str(module)
    check(func, module, shape)


def test_rows_of_odd_length_are_read_one_by_one() -> None:
    func = sum_with((72, 33, 64))
    module = tile_kernel(func, hopper(2), 0)
    assert "_ahead" not in str(module)
    check(func, module)
