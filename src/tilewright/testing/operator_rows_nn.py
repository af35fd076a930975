"""The operators of `topi.nn`: one row (or a few) for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.testing import operator_references as ref
from tilewright.testing.operator_table import (
    FLOATS,
    INDICES,
    MOVED,
    NUMBERS,
    PLAIN,
    PRODUCTS,
    TAME,
    Row,
    Shape,
    Values,
    always,
    summed,
)
from tilewright.topi import Requantization, nn

_POINTWISE: list[tuple[Shape, ...]] = [((),), ((0, 3),), ((1, 1),), ((23,),)]
_HALF = 1 << 30


def product(
    name: str,
    call: Callable[..., Any],
    reference: Callable[..., Any],
    *shapes: tuple[Shape, ...],
    dtypes: Any = PRODUCTS,
    values: Values = PLAIN,
    units: float = 16,
) -> Row:
    """A row whose results are sums of products."""
    return Row(name, call, reference, dtypes, shapes, (values,), summed, units, True)


def _activation_rows() -> list[Row]:
    channels: list[tuple[Shape, ...]] = [((2, 3, 5), (3,)), ((0, 1, 2), (1,)), ((1, 7), (7,))]
    return [
        Row("nn.relu", nn.relu, lambda x: np.maximum(x, 0), NUMBERS, _POINTWISE),
        Row("nn.leaky_relu", lambda x: nn.leaky_relu(x, 0.25),
            lambda x: np.where(x > 0, x, x * 0.25), FLOATS, _POINTWISE),
        Row("nn.prelu", nn.prelu,
            lambda x, s: np.where(x > 0, x, x * s.reshape(-1, *[1] * (x.ndim - 2))),
            FLOATS, channels, (Values(), PLAIN)),
        Row("nn.gelu", nn.gelu, ref.gelu, FLOATS, _POINTWISE, (TAME,), units=4, cancels=True),
        Row("nn.gelu", lambda x: nn.gelu(x, "tanh"), ref.gelu_by_tanh, FLOATS, _POINTWISE,
            (TAME,), units=4, cancels=True),
        Row("nn.silu", nn.silu, ref.silu, FLOATS, _POINTWISE, units=4),
    ]  # fmt: skip


def _matrix_rows() -> list[Row]:
    return [
        product("nn.matmul", nn.matmul, np.matmul,
                ((1, 1), (1, 1)), ((0, 3), (3, 2)), ((3, 0), (0, 2)), ((2, 7, 13), (13, 5)),
                values=TAME),
        product("nn.matmul", lambda a, b, c: nn.matmul(a, b, c, None, True, True),
                lambda a, b, c: np.swapaxes(a, -1, -2) @ b.T + c,
                ((13, 7), (5, 13), (5,)), ((0, 3), (1, 0), (1,))),
        product("nn.dense", nn.dense, lambda x, w: x @ w.T,
                ((1, 1), (1, 1)), ((7, 13), (5, 13)), ((3, 0), (2, 0))),
        product("nn.dense", nn.dense, lambda x, w, b: x @ w.T + b, ((7, 13), (5, 13), (5,))),
        product("nn.batch_matmul", nn.batch_matmul, lambda a, b: a @ np.swapaxes(b, 1, 2),
                ((1, 3, 5), (4, 2, 5)), ((3, 1, 7), (3, 1, 7)), ((0, 2, 3), (0, 4, 3)),
                ((2, 3, 0), (1, 4, 0))),
        Row("nn.flatten", nn.flatten, lambda x: x.reshape(x.shape[0], int(np.prod(x.shape[1:]))),
            MOVED, [((2, 3, 5),), ((3,),), ((0, 4),), ((3, 0, 2),)]),
    ]  # fmt: skip


def _direct_rows() -> list[Row]:
    """Convolutions with channels first, and the same with channels last."""
    names = {
        1: ("nn.conv1d_ncw", "nn.conv1d_nwc"),
        2: ("nn.conv2d_nchw", "nn.conv2d_nhwc"),
        3: ("nn.conv3d_ncdhw", "nn.conv3d_ndhwc"),
    }
    rows = []
    for n, (first, last) in names.items():
        image, window = (7, 5, 3)[-n:], (3, 2, 3)[-n:]
        shapes: list[tuple[Shape, Shape]] = [
            ((2, 3, *image), (5, 3, *window)), ((1, 1, *image), (1, 1, *window)),
            ((0, 1, *image), (2, 1, *window)), ((1, 0, *image), (2, 0, *window)),
        ]  # fmt: skip
        turned = [((x[0], *x[2:], x[1]), (*w[2:], w[1], w[0])) for x, w in shapes]
        rows += [
            product(first, _stepped(first), lambda x, w: ref.convolution(x, w, 2, 1), *shapes),
            product(last, _stepped(last), _last(lambda x, w: ref.convolution(x, w, 2, 1)), *turned),
        ]
    return rows


def _stepped(name: str) -> Callable[..., Any]:
    operator = getattr(nn, name.removeprefix("nn."))
    return lambda x, w: operator(x, w, 2, 1)


def _last(reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference for channels first, applied to data `N...C` and kernels `...IO`."""
    return lambda x, w: ref.channels_last(reference(ref.channels_first(x), ref.kernel_first(w)))


def _grouped(x: Any, w: Any) -> Any:
    return ref.convolution(x, w, 1, 1, 1, 2)


def _dilated(x: Any, w: Any) -> Any:
    return ref.convolution(x, w, 1, 1, 2)


def _blocked(x: Any, w: Any) -> Any:
    return ref.blocked(ref.convolution(ref.unblocked(x), ref.unblocked_kernel(w), 1, 1), w.shape[5])


def _blocked_bytes(x: Any, w: Any) -> Any:
    """The input channels of the kernel `[O/c, I/b, kh, kw, b/e, c, e]` are split once more."""
    joined = np.moveaxis(w, 6, 5)
    return _blocked(x, joined.reshape(*joined.shape[:4], -1, joined.shape[6]))


def _depthwise_last(x: Any, w: Any, stride: int = 2) -> Any:
    kernel = np.moveaxis(w, (2, 3), (0, 1))
    return ref.channels_last(ref.depthwise(ref.channels_first(x), kernel, stride, 1))


def _conv_rows() -> list[Row]:
    nchw, nhwc = ((1, 4, 5, 7), (6, 2, 3, 3)), ((1, 5, 7, 4), (3, 3, 2, 6))
    image = ((2, 3, 5, 7), (4, 3, 3, 2)), ((1, 5, 7, 3), (3, 2, 3, 4))
    blocked = ((1, 2, 5, 5, 4), (3, 2, 3, 3, 4, 2))
    return [
        product("nn.group_conv2d_nchw", lambda x, w: nn.group_conv2d_nchw(x, w, 1, 1, 1, 2),
                _grouped, nchw),
        product("nn.group_conv2d_nhwc", lambda x, w: nn.group_conv2d_nhwc(x, w, 1, 1, 1, 2),
                _last(_grouped), nhwc),
        product("nn.conv1d", nn.conv1d, ref.convolution, ((2, 3, 7), (2, 3, 3))),
        product("nn.conv2d", lambda x, w: nn.conv2d(x, w, 1, 1, 2), _dilated, image[0]),
        product("nn.conv2d", lambda x, w: nn.conv2d(x, w, 1, 1, 2, "NHWC"), _last(_dilated),
                image[1]),
        product("nn.conv3d", nn.conv3d, ref.convolution, ((1, 2, 3, 4, 5), (2, 2, 2, 2, 2))),
        product("nn.conv2d_im2col_nchw", lambda x, w: nn.conv2d_im2col_nchw(x, w, 1, 1, 2),
                _dilated, image[0], ((0, 1, 5, 5), (2, 1, 1, 1))),
        product("nn.conv2d_im2col_nhwc", lambda x, w: nn.conv2d_im2col_nhwc(x, w, 1, 1, 2),
                _last(_dilated), image[1], ((0, 5, 5, 1), (1, 1, 1, 2))),
        product("nn.conv2d_NCHWc", lambda x, w: nn.conv2d_NCHWc(x, w, 1, 1), _blocked, blocked),
        product("nn.depthwise_conv2d_nchw", lambda x, w: nn.depthwise_conv2d_nchw(x, w, 2, 1),
                lambda x, w: ref.depthwise(x, w, 2, 1), ((2, 3, 5, 7), (3, 2, 3, 3))),
        product("nn.depthwise_conv2d_nhwc", lambda x, w: nn.depthwise_conv2d_nhwc(x, w, 2, 1),
                _depthwise_last, ((2, 5, 7, 3), (3, 3, 3, 2))),
        product("nn.conv1d_transpose_ncw", lambda x, w: nn.conv1d_transpose_ncw(x, w, 2, 1),
                lambda x, w: ref.transposed_convolution(x, w, 2, 1), ((2, 3, 5), (3, 2, 3))),
        product("nn.conv2d_transpose_nchw",
                lambda x, w: nn.conv2d_transpose_nchw(x, w, 2, 1, None, 1),
                lambda x, w: ref.transposed_convolution(x, w, 2, 1, 1),
                ((2, 3, 4, 5), (3, 2, 3, 3))),
        product("nn.conv3d_transpose_ncdhw", lambda x, w: nn.conv3d_transpose_ncdhw(x, w, 2, 0),
                lambda x, w: ref.transposed_convolution(x, w, 2, 0),
                ((1, 2, 2, 3, 2), (2, 3, 2, 2, 3))),
    ]  # fmt: skip


def _winograd_rows() -> list[Row]:
    floats, loose = FLOATS, 64
    nchw, nhwc = ((1, 2, 7, 5), (3, 2, 3, 3)), ((1, 7, 5, 2), (3, 3, 2, 3))
    return [
        product("nn.conv2d_winograd_nchw", lambda x, w: nn.conv2d_winograd_nchw(x, w, 1, 1),
                lambda x, w: ref.convolution(x, w, 1, 1), nchw, dtypes=floats, units=loose),
        product("nn.conv2d_winograd_nhwc", lambda x, w: nn.conv2d_winograd_nhwc(x, w, 1, 1),
                _last(lambda x, w: ref.convolution(x, w, 1, 1)), nhwc, dtypes=floats, units=loose),
        product("nn.conv2d_winograd_weight_transform", _with_transformed_weight,
                lambda x, w: ref.channels_last(ref.convolution(ref.channels_first(x), w, 1, 1)),
                ((1, 7, 5, 2), (3, 2, 3, 3)), dtypes=floats, units=loose),
        *(product("nn.winograd_conv2d", lambda x, w, m=m: nn.winograd_conv2d(x, w, 1, m),
                  _last(lambda x, w: ref.convolution(x, w, 1, 1)), nhwc,
                  ((2, 1, 3, 1), (3, 3, 1, 1)), dtypes=floats, units=512 if m == 6 else loose)
          for m in (2, 4, 6)),
    ]  # fmt: skip


def _with_transformed_weight(x: Any, w: Any) -> Any:
    weight = nn.conv2d_winograd_weight_transform(w, 4)
    return nn.conv2d_winograd_nhwc(x, weight, 1, 1, pre_computed=True)


def _pool_rows() -> list[Row]:
    rows = []
    images: dict[int, list[tuple[Shape, ...]]] = {
        1: [((2, 3, 7),), ((0, 1, 5),)],
        2: [((2, 3, 7, 5),), ((1, 1, 3, 3),), ((0, 1, 5, 5),)],
        3: [((1, 2, 5, 3, 4),)],
    }
    for n, shapes in images.items():
        for kind, dtypes in (("max", NUMBERS), ("avg", FLOATS)):
            rows.append(
                Row(f"nn.pool{n}d", _pool(n, kind), lambda x, k=kind: ref.pool(x, 3, 2, 1, k),
                    dtypes, shapes, (Values() if kind == "max" else TAME,), units=8,
                    cancels=kind == "avg")
            )  # fmt: skip
    whole: list[tuple[Shape, ...]] = [((2, 3, 7, 5),), ((0, 1, 2, 2),), ((1, 1, 1, 1),)]
    for kind, dtypes in (("max", NUMBERS), ("avg", FLOATS)):
        values, cancels = (Values() if kind == "max" else TAME,), kind == "avg"
        rows += [
            Row("nn.global_pool", lambda x, k=kind: nn.global_pool(x, k),
                lambda x, k=kind: ref.adaptive_pool(x, 1, k), dtypes, whole, values,
                units=8, cancels=cancels),
            Row("nn.adaptive_pool", lambda x, k=kind: nn.adaptive_pool(x, 3, k),
                lambda x, k=kind: ref.adaptive_pool(x, 3, k), dtypes, [((2, 3, 7, 5),)], values,
                units=8, cancels=cancels),
        ]  # fmt: skip
    return rows


def _pool(n: int, kind: str) -> Callable[..., Any]:
    return lambda x: getattr(nn, f"pool{n}d")(x, 3, 2, 1, 1, kind)


def _norm_rows() -> list[Row]:
    rows_of: list[tuple[Shape, ...]] = [((7, 13),), ((1, 1),), ((0, 3),), ((3, 0),)]
    scaled: list[tuple[Shape, ...]] = [
        ((3, 4, 5), (4, 5)),
        ((1, 1, 1), (1, 1)),
        ((0, 2, 3), (2, 3)),
    ]
    shifted = [(x, g, g) for x, g in scaled]
    channels: list[tuple[Shape, ...]] = [((2, 3, 5, 2), *[(3,)] * 4), ((0, 1), *[(1,)] * 4)]
    positive = Values(0.5, 4, special=False, extreme=False)
    affine = [((2, 3, 4, 5), (3,), (3,)), ((0, 1, 1, 1), (1,), (1,))]
    affine_last = [((2, 4, 5, 3), (3,), (3,)), ((0, 1, 1, 1), (1,), (1,))]
    axes = (-2, -1)
    return [
        Row("nn.softmax", nn.softmax, lambda x: ref.softmax(x, -1), FLOATS, rows_of, units=8),
        Row("nn.softmax", lambda x: nn.softmax(x, 0), lambda x: ref.softmax(x, 0), FLOATS,
            [((7, 13),)], (PLAIN,), units=8),
        Row("nn.softmax", nn.softmax, np.ones_like, FLOATS, [((),)]),
        Row("nn.log_softmax", nn.log_softmax, np.zeros_like, FLOATS, [((),)]),
        Row("nn.log_softmax", nn.log_softmax, lambda x: ref.log_softmax(x, -1), FLOATS, rows_of,
            (TAME,), units=8, cancels=True),
        Row("nn.layer_norm", lambda x, g, b: nn.layer_norm(x, g, b, axes),
            lambda x, g, b: ref.layer_norm(x, g, b, axes), FLOATS, shifted, (PLAIN,), units=16,
            cancels=True),
        Row("nn.layer_norm", lambda x, g: nn.layer_norm(x, g, None, [-1]),
            lambda x, g: ref.layer_norm(x, g, None, (-1,)), FLOATS, [((11, 3), (3,))],
            (TAME, PLAIN), units=16, cancels=True),
        Row("nn.rms_norm", lambda x, w: nn.rms_norm(x, w, axes),
            lambda x, w: ref.rms_norm(x, w, axes), FLOATS, scaled, (TAME, PLAIN), units=16),
        Row("nn.group_norm", lambda x, g, b: nn.group_norm(x, g, b, 2, 1, [2, 3]),
            lambda x, g, b: ref.group_norm(x, g, b, 2), FLOATS, [((3, 4, 5, 2), (4,), (4,))],
            (PLAIN,), units=16, cancels=True),
        Row("nn.instance_norm", lambda x, g, b: nn.instance_norm(x, g, b, 1, [2, 3]),
            lambda x, g, b: ref.group_norm(x, g, b, x.shape[1]), FLOATS,
            [((3, 4, 5, 2), (4,), (4,))], (PLAIN,), units=16, cancels=True),
        Row("nn.attention", nn.attention, ref.attention, FLOATS,
            [((1, 2, 7, 5), (1, 2, 11, 5), (1, 2, 11, 3))], (PLAIN,), units=16, cancels=True),
        Row("nn.head_attention",
            lambda q, k, v: nn.head_attention(q, k, v, None, nn.HeadOptions(heads=2, depth=3)),
            lambda q, k, v: ref.head_attention(q, k, v, 2), FLOATS,
            [((1, 7, 6), (1, 11, 6), (1, 11, 6))], (PLAIN,), units=16, cancels=True),
        Row("nn.embedding", nn.embedding,
            lambda i, w: w[ref.from_the_end(i, w.shape[0])], MOVED,
            [((5,), (3, 4)), ((), (1, 2)), ((0,), (0, 2))], (INDICES, Values())),
        Row("nn.batch_norm", nn.batch_norm, ref.batch_norm, FLOATS, channels,
            (TAME, PLAIN, PLAIN, PLAIN, positive), units=16, cancels=True),
        Row("nn.scale_shift_nchw", nn.scale_shift_nchw,
            lambda x, a, b: x * a[:, None, None] + b[:, None, None], FLOATS, affine,
            (TAME,), units=4, cancels=True),
        Row("nn.scale_shift_nhwc", nn.scale_shift_nhwc, lambda x, a, b: x * a + b, FLOATS,
            affine_last, (TAME,), units=4, cancels=True),
        Row("nn.pad", lambda x: nn.pad(x, (1, 0), (0, 2), 3),
            lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=3), NUMBERS,
            [((3, 5),), ((0, 2),), ((1, 1),)]),
        Row("nn.dilate", lambda x: nn.dilate(x, (2, 3), 1), _dilate, NUMBERS,
            [((3, 5),), ((1, 1),)]),
    ]  # fmt: skip


def _dilate(x: Any) -> Any:
    rows, columns = x.shape
    result = np.ones((rows * 2 - 1, columns * 3 - 2), x.dtype)
    result[::2, ::3] = x
    return result


def _quantized_rows() -> list[Row]:
    scale, zero = Requantization(_HALF, -7, 3, "int8"), 5
    bytes_ = ("int8", "uint8")
    result = always("int8")

    def row(
        name: str,
        call: Callable[..., Any],
        sums: Callable[..., Any],
        *shapes: tuple[Shape, ...],
        weight: str = "int8",
    ) -> Row:
        def reference(*inputs: Any) -> Any:
            return ref.requantized(sums(inputs[0] - zero, *inputs[1:]), _HALF, -7, 3, "int8")

        values = Values(0, 100), Values(-50, 50, dtype=weight), Values(-99, 99, dtype="int32")
        return Row(name, call, reference, bytes_, shapes, values, result)

    return [
        row("nn.quantized_dense", lambda x, w, b: nn.quantized_dense(x, w, scale, b, zero),
            lambda x, w, b: x @ w.T + b, ((3, 7), (5, 7), (5,)), ((1, 1), (1, 1), (1,))),
        row("nn.quantized_batch_matmul",
            lambda a, b: nn.quantized_batch_matmul(a, b, scale, zero, 2),
            lambda a, b: a @ np.swapaxes(b - 2, 1, 2), ((2, 3, 7), (2, 5, 7))),
        row("nn.quantized_conv2d_nhwc",
            lambda x, w: nn.quantized_conv2d_nhwc(x, w, scale, None, zero, 1, 1),
            _last(lambda x, w: ref.convolution(x, w, 1, 1)), ((1, 5, 4, 3), (3, 3, 3, 2))),
        row("nn.quantized_conv2d_NCHWc",
            lambda x, w: nn.quantized_conv2d_NCHWc(x, w, scale, None, zero, 1, 1),
            _blocked_bytes, ((1, 2, 5, 4, 4), (3, 2, 3, 3, 1, 2, 4))),
        row("nn.quantized_depthwise_conv2d_nhwc",
            lambda x, w: nn.quantized_depthwise_conv2d_nhwc(x, w, scale, None, zero, 1, 1),
            lambda x, w: _depthwise_last(x, w, 1), ((1, 5, 4, 3), (3, 3, 3, 2))),
        Row("nn.conv2d_NCHWc_int8", lambda x, w: nn.conv2d_NCHWc_int8(x, w, 1, 1), _blocked_bytes,
            ["int8", "uint8"], [((1, 2, 5, 4, 4), (3, 2, 3, 3, 1, 2, 4))],
            (Values(), Values(-50, 50, dtype="int8")), always("int32")),
    ]  # fmt: skip


NN_ROWS: list[Row] = [
    *_activation_rows(),
    *_matrix_rows(),
    *_direct_rows(),
    *_conv_rows(),
    *_winograd_rows(),
    *_pool_rows(),
    *_norm_rows(),
    *_quantized_rows(),
]
