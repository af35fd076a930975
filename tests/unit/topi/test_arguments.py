"""What operators refuse, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import IRError, TensorExpressionError
from tilewright.topi import nn


def tensor(*shape: int, dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, dtype, "A")


FRACTION, TEXT = cast(int, 1.5), cast(int, "x")
C = tensor(4, dtype="int32")
A, I, EMPTY = tensor(3, 4), tensor(3, 4, dtype="int32"), tensor(0, 3)
X, W, XL = tensor(1, 4, 8, 8), tensor(6, 4, 3, 3), tensor(1, 8, 8, 4)

MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: topi.sum(A, FRACTION), "sum axis: 1.5 is not an integer"),
    (lambda: topi.sum(A, TEXT), "sum axis: 'x' is not an integer"),
    (
        lambda: topi.max(EMPTY),
        "max: A has no elements along axis 0, 1, and the max of nothing is not defined",
    ),
    (
        lambda: topi.min(EMPTY, 0),
        "min: A has no elements along axis 0, and the min of nothing is not defined",
    ),
    (
        lambda: topi.argmax(EMPTY, 0),
        "argmax: A has no elements along axis 0, and the argmax of nothing is not defined",
    ),
    (
        lambda: topi.argmin(EMPTY),
        "argmin: A has no elements along axis 0, 1, and the argmin of nothing is not defined",
    ),
    (lambda: topi.bitwise_not(A), "`~` needs integers or bools, got float32 in `A[i0, i1]`"),
    (lambda: topi.power(I, I), "power: `A[ax0, ax1]` is int32, expected a float type"),
    (lambda: topi.atan2(I, I), "atan2: `A[ax0, ax1]` is int32, expected a float type"),
    (lambda: topi.cast(A, "handle"), "cast: 'handle' is not a type of numbers"),
    (lambda: topi.reshape(EMPTY, (0, -1)), "reshape: -1 beside 0 in [0, -1] is ambiguous"),
    (lambda: topi.repeat(A, -1, 0), "repeat: repetitions [-1] must not be negative"),
    (lambda: topi.tile(A, (-1, 2)), "tile: repetitions [-1, 2] must not be negative"),
    (
        lambda: topi.strided_slice(A, [0, 0], [1, 1], None, [0, -2]),
        "strided_slice: an axis is named twice in [0, -2]",
    ),
    (lambda: topi.take(A, A), "take: indices A must be integers, they are float32"),
    (
        lambda: topi.take(EMPTY, I, 0),
        "take: cannot choose from an axis without elements",
    ),
    (
        lambda: topi.take(A, I, 0, "raise"),
        "take: unknown mode 'raise', expected one of 'fast', 'clip', 'wrap'",
    ),
    (lambda: topi.gather(A, 1, A), "gather: indices A must be integers, they are float32"),
    (
        lambda: topi.gather(A, 1, tensor(4, 2, dtype="int32")),
        "gather: indices have extent 4 at axis 0, more than the 3 of data",
    ),
    (
        lambda: topi.gather(EMPTY, 0, tensor(1, 3, dtype="int32")),
        "gather: cannot choose from an axis without elements",
    ),
    (
        lambda: topi.gather_nd(A, tensor(dtype="int32")),
        "gather_nd: indices must have at least 1 dimension, it has 0",
    ),
    (
        lambda: topi.gather_nd(EMPTY, tensor(1, 2, dtype="int32")),
        "gather_nd: cannot choose from an axis without elements",
    ),
    (
        lambda: topi.one_hot(A, 1, 0, 3, 0, "float32"),
        "one_hot: indices A must be integers, they are float32",
    ),
    (lambda: topi.one_hot(I, 1, 0, -3, 0, "float32"), "one_hot: depth -3 must not be negative"),
    (
        lambda: topi.fixed_point_multiply(A, 1, 1),
        "fixed_point_multiply: A is float32, expected int32",
    ),
    (lambda: nn.flatten(tensor()), "flatten: A has no dimensions, expected at least 1"),
    (lambda: nn.softmax(I), "softmax: A is int32, expected a float type"),
    (lambda: nn.log_softmax(I), "log_softmax: A is int32, expected a float type"),
    (
        lambda: nn.layer_norm(I, tensor(4, dtype="int32"), None, [1]),
        "layer_norm: A is int32, expected a float type",
    ),
    (
        lambda: nn.rms_norm(I, tensor(4, dtype="int32"), [1]),
        "rms_norm: A is int32, expected a float type",
    ),
    (
        lambda: nn.batch_norm(I, C, C, C, C),
        "batch_norm: A is int32, expected a float type",
    ),
    (lambda: nn.leaky_relu(I, 0.1), "leaky_relu: A is int32, expected a float type"),
    (lambda: nn.prelu(I, tensor(4, dtype="int32")), "prelu: A is int32, expected a float type"),
    (lambda: nn.gelu(I), "gelu: A is int32, expected a float type"),
    (lambda: nn.silu(I), "silu: A is int32, expected a float type"),
    (lambda: nn.pad(A, (-1, 0)), "pad: widths [-1, 0] and [-1, 0] must not be negative"),
    (lambda: nn.dilate(A, (0, 1)), "dilate strides must be positive, got [0, 1]"),
    (lambda: nn.pool2d(X, 0, 1, 1, 0, "max"), "pool2d kernel must be positive, got [0, 0]"),
    (lambda: nn.pool2d(X, 2, 0, 1, 0, "max"), "pool2d stride must be positive, got [0, 0]"),
    (lambda: nn.pool2d(X, 2, -1, 1, 0, "max"), "pool2d stride must be positive, got [-1, -1]"),
    (lambda: nn.pool2d(X, 2, 1, (1, 0), 0, "max"), "pool2d dilation must be positive, got [1, 0]"),
    (lambda: nn.pool2d(X, FRACTION, 1, 1, 0, "max"), "pool2d kernel: 1.5 is not an integer"),
    (
        lambda: nn.pool2d(tensor(1, 1, 3, 3, dtype="int8"), 2, 1, 1, 0, "avg"),
        "pool2d of averages: A is int8, expected a float type",
    ),
    (
        lambda: nn.global_pool(tensor(1, 1, 0, 3), "max"),
        "global_pool: axis 2 of A has no elements, and the max of nothing is not defined",
    ),
    (
        lambda: nn.adaptive_pool(tensor(1, 1, 3, 0), 2, "max"),
        "adaptive_pool: axis 3 of A has no elements, and the max of nothing is not defined",
    ),
    (
        lambda: nn.conv2d_nchw(X, tensor(6, 4, 0, 3)),
        "conv2d_nchw: the kernel has no elements along a spatial axis",
    ),
    (lambda: nn.conv2d_nchw(X, W, 1.5), "conv2d_nchw stride: 1.5 is not an integer"),
    (lambda: nn.conv2d_nchw(X, W, 1, 0.5), "conv2d_nchw padding: 0.5 is not an integer"),
    (
        lambda: nn.depthwise_conv2d_nchw(X, tensor(4, 1, 3, 0)),
        "depthwise_conv2d_nchw: the kernel has no elements along a spatial axis",
    ),
    (
        lambda: nn.conv1d_transpose_ncw(tensor(1, 4, 8), tensor(4, 6, 3), 0, 0),
        "conv1d_transpose_ncw strides must be positive, got [0]",
    ),
    (
        lambda: nn.conv1d_transpose_ncw(tensor(1, 4, 8), tensor(4, 6, 0), 1, 0),
        "conv1d_transpose_ncw: the kernel has no elements along a spatial axis",
    ),
    (
        lambda: nn.conv2d_winograd_nhwc(XL, tensor(3, 3, 6, 4), pre_computed=True),
        (
            "conv2d_winograd_nhwc: a transformed weight of 3 x 3 does not fit tile_size 4, which "
            "makes 6 x 6 of a kernel of 3 x 3; use conv2d_winograd_weight_transform with the same "
            "tile_size"
        ),
    ),
    (
        lambda: nn.conv2d_winograd_nhwc(XL, tensor(4, 4, 6, 4), pre_computed=True),
        (
            "conv2d_winograd_nhwc: a transformed weight of 4 x 4 does not fit tile_size 4, which "
            "makes 6 x 6 of a kernel of 3 x 3; use conv2d_winograd_weight_transform with the same "
            "tile_size"
        ),
    ),
    (
        lambda: nn.conv2d_winograd_nhwc(XL, tensor(3, 3, 4, 6), tile_size=0),
        "conv2d_winograd_nhwc: tile_size 0 and the kernel of 3 x 3 must be positive",
    ),
    (
        lambda: nn.conv2d_winograd_nhwc(XL, tensor(3, 3, 4, 6, dtype="int8")),
        "conv2d_winograd_nhwc: A is int8, expected a float type",
    ),
    (
        lambda: nn.conv2d_winograd_weight_transform(W, -2),
        "conv2d_winograd_weight_transform: tile_size -2 and the kernel of 3 x 3 must be positive",
    ),
    (
        lambda: nn.conv2d_winograd_weight_transform(tensor(6, 4, 0, 0), 4),
        "conv2d_winograd_weight_transform: tile_size 4 and the kernel of 0 x 0 must be positive",
    ),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES)
def test_mistakes(call: Callable[[], object], message: str) -> None:
    with pytest.raises((TensorExpressionError, IRError)) as error:
        call()
    assert str(error.value) == message


def test_numbers_of_numpy_are_axes_and_windows() -> None:
    one, two = np.int64(1), np.int32(2)
    assert topi.sum(A, one).shape == topi.sum(A, 1).shape
    assert nn.pool2d(X, two, one, one, one, "max").shape == nn.pool2d(X, 2, 1, 1, 1, "max").shape
    assert nn.conv2d_nchw(X, W, two, one).shape == nn.conv2d_nchw(X, W, 2, 1).shape
