"""Quantized layers against the real numbers they stand for, in exact integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import TensorExpressionError
from tilewright.topi.quantize import Requantization

Evaluate = Callable[..., Any]
rng = np.random.default_rng(12)
HALF = 1 << 30


def random_bytes(dtype: str, *shape: int) -> Any:
    """All values of a type, the limits more often than the others."""
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max + 1, shape)
    extreme = rng.choice([limits.min, limits.max], shape)
    return np.where(rng.random(shape) < 0.3, extreme, x).astype(dtype)


def requantized(sums: Any, multiplier: Any, shift: Any, zero_point: int, dtype: str) -> Any:
    """Channels last, as NumPy does it with 64 bits."""
    total = 31 - np.asarray(shift, "int64")
    product = sums.astype("int64") * np.asarray(multiplier, "int64")
    scaled = (product + (np.int64(1) << (total - 1))) >> total
    limits = np.iinfo(dtype)
    return np.clip(scaled + zero_point, limits.min, limits.max).astype(dtype)


def windows(x: Any, kernel: int, stride: int, padding: int, value: int) -> Any:
    """`[n, oh, ow, kh, kw, c]`: what each output of a convolution sees."""
    border = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
    padded = np.pad(x.astype("int64"), border, constant_values=value)
    view = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(1, 2))
    return np.moveaxis(view[:, ::stride, ::stride], 3, -1)


FORMS = [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")]


@pytest.mark.parametrize(("left", "right"), FORMS)
def test_sums_of_extreme_bytes_are_exact(evaluate: Evaluate, left: str, right: str) -> None:
    limits = np.iinfo(left), np.iinfo(right)
    for x, y in [(limits[0].min, limits[1].min), (limits[0].max, limits[1].max)]:
        a, b = np.full((2, 64), x, left), np.full((3, 64), y, right)
        data, weight = te.placeholder(a.shape, left, "a"), te.placeholder(b.shape, right, "b")
        result = evaluate(topi.nn.dense(data, weight, None, "int32"), [data, weight], a, b)
        assert result.tolist() == [[64 * int(x) * int(y)] * 3] * 2


@pytest.mark.parametrize("transpose_b", [True, False])
@pytest.mark.parametrize(("left", "right"), FORMS)
@pytest.mark.parametrize("zero_point", [0, 77])
def test_dense(
    evaluate: Evaluate, left: str, right: str, transpose_b: bool, zero_point: int
) -> None:
    a, b = random_bytes(left, 3, 10), random_bytes(right, 10, 5)
    bias = rng.integers(-1000, 1000, 5).astype("int32")
    multiplier, shift = topi.fixed_point_scales(rng.uniform(0.001, 0.1, 5))
    given = np.ascontiguousarray(b.T) if transpose_b else b
    data, weight = te.placeholder(a.shape, left, "a"), te.placeholder(given.shape, right, "w")
    m, s, c = (te.placeholder((5,), "int32", name) for name in "msc")
    result = evaluate(
        topi.nn.quantized_dense(
            data,
            weight,
            Requantization(m, s, -3, "int8", enlarges=False),
            c,
            zero_point,
            transpose_b=transpose_b,
        ),
        [data, weight, m, s, c],
        a,
        given,
        multiplier,
        shift,
        bias,
    )
    sums = (a.astype("int64") - zero_point) @ b.astype("int64") + bias
    np.testing.assert_array_equal(result, requantized(sums, multiplier, shift, -3, "int8"))


@pytest.mark.parametrize("zero_points", [(0, 0), (9, 0), (0, 200), (9, 200)])
@pytest.mark.parametrize("batches", [(2, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize("transpose_b", [True, False])
def test_batch_matmul(
    evaluate: Evaluate, zero_points: tuple[int, int], batches: tuple[int, int], transpose_b: bool
) -> None:
    a, b = random_bytes("int8", batches[0], 3, 7), random_bytes("uint8", batches[1], 7, 4)
    given = np.ascontiguousarray(b.swapaxes(1, 2)) if transpose_b else b
    x, y = te.placeholder(a.shape, "int8", "x"), te.placeholder(given.shape, "uint8", "y")
    scale = Requantization(HALF, -7, 100, "uint8")
    out = topi.nn.quantized_batch_matmul(x, y, scale, *zero_points, transpose_b=transpose_b)
    sums = (a.astype("int64") - zero_points[0]) @ (b.astype("int64") - zero_points[1])
    np.testing.assert_array_equal(
        evaluate(out, [x, y], a, given), requantized(sums, HALF, -7, 100, "uint8")
    )


@pytest.mark.parametrize(("left", "right"), FORMS)
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(1, 1, 0), (3, 1, 1), (3, 2, 1)])
def test_conv2d_nhwc(
    evaluate: Evaluate, left: str, right: str, kernel: int, stride: int, padding: int
) -> None:
    x, w = random_bytes(left, 1, 5, 5, 4), random_bytes(right, kernel, kernel, 4, 3)
    bias = np.array([5, -700, 0], "int32")
    data, weight = te.placeholder(x.shape, left, "x"), te.placeholder(w.shape, right, "w")
    b = te.placeholder((3,), "int32", "b")
    scale = Requantization(1395864371, -6, 4, "uint8")
    out = topi.nn.quantized_conv2d_nhwc(data, weight, scale, b, 17, stride, padding)
    seen = windows(x, kernel, stride, padding, 17) - 17
    sums = np.einsum("nhwijc,ijco->nhwo", seen, w.astype("int64")) + bias
    np.testing.assert_array_equal(
        evaluate(out, [data, weight, b], x, w, bias), requantized(sums, 1395864371, -6, 4, "uint8")
    )


def test_weight_sums_known_ahead(evaluate: Evaluate) -> None:
    x, w = random_bytes("uint8", 1, 4, 4, 4), random_bytes("int8", 3, 3, 4, 2)
    data, weight = te.placeholder(x.shape, "uint8", "x"), te.placeholder(w.shape, "int8", "w")
    s = te.placeholder((2,), "int32", "s")
    scale = Requantization(HALF, -6, 0, "int8")
    out = topi.nn.quantized_conv2d_nhwc(data, weight, scale, None, 99, padding=1, weight_sums=s)
    sums = np.einsum("nhwijc,ijco->nhwo", windows(x, 3, 1, 1, 99) - 99, w.astype("int64"))
    known = w.astype("int32").sum((0, 1, 2), dtype="int32")
    result = evaluate(out, [data, weight, s], x, w, known)
    np.testing.assert_array_equal(result, requantized(sums, HALF, -6, 0, "int8"))
    blocks = str(te.create_prim_func([data, weight, s, out]))
    assert "weight_sum" not in blocks


def test_a_zero_point_read_from_a_tensor(evaluate: Evaluate) -> None:
    x, w = random_bytes("uint8", 1, 4, 4, 4), random_bytes("int8", 3, 3, 4, 2)
    data, weight = te.placeholder(x.shape, "uint8", "x"), te.placeholder(w.shape, "int8", "w")
    z = te.placeholder((1,), "int32", "z")
    scale = Requantization(HALF, -6, 0, "int8")
    out = topi.nn.quantized_conv2d_nhwc(data, weight, scale, None, z[0], padding=1)
    sums = np.einsum("nhwijc,ijco->nhwo", windows(x, 3, 1, 1, 131) - 131, w.astype("int64"))
    result = evaluate(out, [data, weight, z], x, w, np.array([131], "int32"))
    np.testing.assert_array_equal(result, requantized(sums, HALF, -6, 0, "int8"))


def blocked_data(x: Any, block: int) -> Any:
    """NHWC as NCHWc."""
    n, h, w, c = x.shape
    return np.ascontiguousarray(x.reshape(n, h, w, c // block, block).transpose(0, 3, 1, 2, 4))


def blocked_kernel(w: Any, block: int, out_block: int) -> Any:
    """HWIO as `[oc/c, ic/b, kh, kw, b/4, c, 4]`."""
    kh, kw, ci, co = w.shape
    split = w.reshape(kh, kw, ci // block, block // 4, 4, co // out_block, out_block)
    return np.ascontiguousarray(split.transpose(5, 2, 0, 1, 3, 6, 4))


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(1, 1, 0), (3, 2, 1)])
def test_conv2d_nchwc(evaluate: Evaluate, kernel: int, stride: int, padding: int) -> None:
    x, w = random_bytes("uint8", 1, 5, 5, 16), random_bytes("int8", kernel, kernel, 16, 8)
    seen = windows(x, kernel, stride, padding, 17) - 17
    sums = np.einsum("nhwijc,ijco->nhwo", seen, w.astype("int64"))
    bias = rng.integers(-1000, 1000, 8).astype("int32")
    multiplier, shift = topi.fixed_point_scales(rng.uniform(0.001, 0.01, 8))
    expected = requantized(sums + bias, multiplier, shift, 3, "uint8")
    blocked = blocked_data(x, 8), blocked_kernel(w, 8, 4)
    data = te.placeholder(blocked[0].shape, "uint8", "x")
    weight = te.placeholder(blocked[1].shape, "int8", "w")
    m, s, b = (te.placeholder((2, 4), "int32", name) for name in "msb")
    scale = Requantization(m, s, 3, "uint8")
    out = topi.nn.quantized_conv2d_NCHWc(data, weight, scale, b, 17, stride, padding)
    per_channel = [p.reshape(2, 4) for p in (multiplier, shift, bias)]
    result = evaluate(out, [data, weight, m, s, b], *blocked, *per_channel)
    np.testing.assert_array_equal(result, blocked_data(expected, 4))


@pytest.mark.parametrize("multiplier_of_channels", [1, 2])
@pytest.mark.parametrize("zero_point", [0, 200])
def test_depthwise(evaluate: Evaluate, multiplier_of_channels: int, zero_point: int) -> None:
    x, w = random_bytes("uint8", 1, 5, 5, 4), random_bytes("int8", 3, 3, 4, multiplier_of_channels)
    data, weight = te.placeholder(x.shape, "uint8", "x"), te.placeholder(w.shape, "int8", "w")
    scale = Requantization(HALF, -7, 128, "uint8")
    out = topi.nn.quantized_depthwise_conv2d_nhwc(data, weight, scale, None, zero_point, 2, 1)
    seen = windows(x, 3, 2, 1, zero_point) - zero_point
    sums = np.einsum("nhwijc,ijcm->nhwcm", seen, w.astype("int64")).reshape(1, 3, 3, -1)
    np.testing.assert_array_equal(
        evaluate(out, [data, weight], x, w), requantized(sums, HALF, -7, 128, "uint8")
    )


X, W = te.placeholder((2, 8), "uint8", "X"), te.placeholder((4, 8), "int8", "W")
F = te.placeholder((4, 8), "float32", "F")
B = te.placeholder((5,), "int32", "B")
SCALE = Requantization(HALF, 0)
WRONG: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: topi.nn.quantized_dense(X, F, SCALE),
        "quantized_dense: F is float32, expected uint8 or int8",
    ),
    (
        lambda: topi.nn.quantized_dense(X, W, SCALE, B),
        "quantized layer: the channels of T_matmul_NT and B differ: 4 and 5",
    ),
    (
        lambda: topi.nn.quantized_dense(X, W, SCALE, None, 3, weight_sums=B),
        "quantized layer: the channels of T_matmul_NT and B differ: 4 and 5",
    ),
    (
        lambda: topi.nn.conv2d_NCHWc_int8(
            te.placeholder((1, 2, 4, 4, 16), "uint8"),
            te.placeholder((1, 2, 1, 1, 2, 16, 4), "int8"),
        ),
        "conv2d_NCHWc_int8: the channel blocks of data and kernel differ: 16 and 8",
    ),
]


@pytest.mark.parametrize(("build", "message"), WRONG)
def test_mistakes(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as caught:
        build()
    assert str(caught.value) == message
