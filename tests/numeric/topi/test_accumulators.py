"""Sums of narrow numbers are accumulated in 32 bits and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  -- gives NumPy the type bfloat16
import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.ir import IntImm

EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
LONG = 4096  # a sum of as many ones is beyond what halves can count up to


def compiled(result: te.Tensor, inputs: list[te.Tensor], *arrays: Any) -> Any:
    shape = [extent.value for extent in result.shape if isinstance(extent, IntImm)]
    out = np.empty(shape, str(result.dtype))
    tw.build(te.create_prim_func([*inputs, result]))(*arrays, out)
    return out


def of_constant(
    operator: Callable[..., te.Tensor], value: float, dtype: str, *shapes: tuple[int, ...]
) -> Any:
    """`operator` of tensors that hold `value` everywhere."""
    inputs = [te.placeholder(shape, dtype, f"x{n}") for n, shape in enumerate(shapes)]
    return compiled(operator(*inputs), inputs, *(np.full(shape, value, dtype) for shape in shapes))


NN = topi.nn
PRODUCTS: dict[str, tuple[Callable[..., te.Tensor], tuple[int, ...], tuple[int, ...]]] = {
    "topi.matmul": (topi.matmul, (1, LONG), (LONG, 1)),
    "matmul": (NN.matmul, (1, LONG), (LONG, 1)),
    "dense": (NN.dense, (1, LONG), (1, LONG)),
    "batch_matmul": (NN.batch_matmul, (1, 1, LONG), (1, 1, LONG)),
    "conv1d_ncw": (NN.conv1d_ncw, (1, LONG, 1), (1, LONG, 1)),
    "conv1d_nwc": (NN.conv1d_nwc, (1, 1, LONG), (1, LONG, 1)),
    "conv2d_nchw": (NN.conv2d_nchw, (1, LONG, 1, 1), (1, LONG, 1, 1)),
    "conv2d_nhwc": (NN.conv2d_nhwc, (1, 1, 1, LONG), (1, 1, LONG, 1)),
    "conv3d_ncdhw": (NN.conv3d_ncdhw, (1, LONG, 1, 1, 1), (1, LONG, 1, 1, 1)),
    "conv3d_ndhwc": (NN.conv3d_ndhwc, (1, 1, 1, 1, LONG), (1, 1, 1, LONG, 1)),
    "conv2d_NCHWc": (NN.conv2d_NCHWc, (1, LONG // 8, 1, 1, 8), (1, LONG // 8, 1, 1, 8, 1)),
    "conv2d_im2col_nchw": (NN.conv2d_im2col_nchw, (1, LONG, 1, 1), (1, LONG, 1, 1)),
    "conv2d_im2col_nhwc": (NN.conv2d_im2col_nhwc, (1, 1, 1, LONG), (1, 1, LONG, 1)),
    "depthwise_nchw": (NN.depthwise_conv2d_nchw, (1, 1, 64, 64), (1, 1, 64, 64)),
    "depthwise_nhwc": (NN.depthwise_conv2d_nhwc, (1, 64, 64, 1), (64, 64, 1, 1)),
    "transpose": (
        lambda x, w: NN.conv1d_transpose_ncw(x, w, 1, 0), (1, LONG, 1), (LONG, 1, 1)
    ),
    "winograd_nchw": (NN.conv2d_winograd_nchw, (1, LONG // 9, 3, 3), (1, LONG // 9, 3, 3)),
    "winograd_nhwc": (NN.conv2d_winograd_nhwc, (1, 3, 3, LONG // 9), (3, 3, LONG // 9, 1)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", EPSILON)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_ones(name: str, dtype: str) -> None:
    operator, data, kernel = PRODUCTS[name]
    result = of_constant(operator, 1, dtype, data, kernel)
    expected = np.full((), LONG // 9 * 9 if "winograd" in name else LONG, "float32")
    np.testing.assert_array_equal(result.astype("float32").ravel(), expected.astype(result.dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("name", [name for name in PRODUCTS if "winograd" not in name])
def test_products_of_integers_have_32_bits(name: str, dtype: str) -> None:
    operator, data, kernel = PRODUCTS[name]
    result = of_constant(operator, 100, dtype, data, kernel)
    assert result.dtype == ("uint32" if dtype.startswith("u") else "int32")
    np.testing.assert_array_equal(result.ravel(), LONG * 100 * 100)


@pytest.mark.parametrize("dtype", EPSILON)
def test_sums_and_averages(dtype: str) -> None:
    assert of_constant(topi.sum, 1, dtype, (LONG,)) == LONG
    assert of_constant(topi.mean, 0.5, dtype, (LONG,)) == 0.5
    # In between, the product is below the smallest number of half precision.
    given = te.placeholder((4,), dtype, "x")
    values = np.array([2**-14, 2**-14, 2**14, 2**14]).astype(dtype)
    assert compiled(topi.prod(given), [given], values) == 1


@pytest.mark.parametrize("dtype", EPSILON)
def test_average_pooling_of_a_large_window(dtype: str) -> None:
    image = (1, 1, 112, 112)
    whole = of_constant(lambda x: NN.global_pool(x, "avg"), 0.5, dtype, image)
    window = of_constant(lambda x: NN.pool2d(x, 112, 1, 1, 0, "avg"), 0.5, dtype, image)
    assert whole.item() == window.item() == 0.5


@pytest.mark.parametrize("dtype", EPSILON)
def test_softmax_of_a_long_row(dtype: str) -> None:
    rounding = EPSILON[dtype]  # 1/32000 is a subnormal number of float16
    row = of_constant(NN.softmax, 0, dtype, (1, 32000)).astype("float64")
    assert row.sum() == pytest.approx(1, rel=rounding)
    logs = of_constant(NN.log_softmax, 0, dtype, (1, 32000)).astype("float64")
    np.testing.assert_allclose(logs, -np.log(32000), rtol=rounding)


@pytest.mark.parametrize("dtype", EPSILON)
def test_norms_round_once(dtype: str) -> None:
    """One rounding is at most half a unit in the last place away from the exact result."""
    rng = np.random.default_rng(3)
    x = rng.normal(3, 2, (2, 999)).astype(dtype)
    scale, shift = (rng.normal(3, 2, 999).astype(dtype) for _ in range(2))
    a, g = te.placeholder(x.shape, dtype, "a"), te.placeholder(scale.shape, dtype, "g")
    b = te.placeholder(shift.shape, dtype, "b")
    wide, gamma, beta = (v.astype("float64") for v in (x, scale, shift))
    centred = wide - wide.mean(1, keepdims=True)
    layer = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * gamma + beta
    rms = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * gamma
    half_unit = EPSILON[dtype] / 2
    for result, expected in [
        (compiled(NN.layer_norm(a, g, b, [1]), [a, g, b], x, scale, shift), layer),
        (compiled(NN.rms_norm(a, g, [1]), [a, g], x, scale), rms),
    ]:
        np.testing.assert_allclose(
            result.astype("float64"), expected, rtol=1.01 * half_unit, atol=1e-4 * half_unit
        )


def test_the_type_of_a_result_can_be_chosen() -> None:
    a = te.placeholder((3, 4), "int8", "A")
    assert [topi.sum(a, 1).dtype, topi.prod(a, 1).dtype] == ["int32", "int32"]
    assert topi.sum(a, 1, dtype="int8").dtype == "int8"
    assert topi.prod(a, 1, dtype="int64").dtype == "int64"
    assert topi.mean(a, 1, dtype="float32").dtype == "float32"
    assert topi.sum(te.placeholder((3,), "bool", "B")).dtype == "int32"
    half = te.placeholder((3, 4), "float16", "H")
    assert topi.mean(half).dtype == "float16"
    assert topi.sum(half, dtype="float32").dtype == "float32"
    assert NN.dense(half, half, out_dtype="float32").dtype == "float32"
    assert NN.dense(half, te.placeholder((2, 4), "float32", "W")).dtype == "float32"
    x = np.arange(12, dtype="int8").reshape(3, 4) * 10
    np.testing.assert_array_equal(compiled(topi.sum(a, 1, dtype="int8"), [a], x), x.sum(1, "int8"))
    np.testing.assert_allclose(compiled(topi.mean(a, 1, dtype="float32"), [a], x), x.mean(1))


def test_wide_types_get_no_further_operations() -> None:
    for dtype in ("float32", "float64", "int32", "int64"):
        a, b = te.placeholder((3, 4), dtype, "A"), te.placeholder((5, 4), dtype, "B")
        for result in (topi.sum(a, 1), topi.prod(a, 1), NN.dense(a, b)):
            assert {tensor.op for tensor in result.op.input_tensors} <= {a.op, b.op}
            assert "Cast" not in str(te.create_prim_func([a, b, result]))
