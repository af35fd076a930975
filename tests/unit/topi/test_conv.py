"""All forms of convolution against one NumPy reference."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import TensorExpressionError
from tilewright.topi.nn.winograd import transform_matrices

Evaluate = Callable[..., Any]
rng = np.random.default_rng(3)


def whole_then(*rest: Any) -> Any:
    """An index that keeps the first two axes whole."""
    return (slice(None), slice(None), *rest)


def reference(
    x: Any,
    w: Any,
    stride: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Any:
    """Convolution of `x[n, c, *spatial]` with `w[o, c / groups, *window]`, in float64."""
    n = x.ndim - 2
    x = np.pad(x.astype("float64"), [(0, 0), (0, 0), *zip(before, after, strict=True)])
    window = w.shape[2:]
    out = [(x.shape[d + 2] - dilation[d] * (window[d] - 1) - 1) // stride[d] + 1 for d in range(n)]
    result = np.zeros((x.shape[0], w.shape[0], *out))
    per_out, per_in = w.shape[0] // groups, w.shape[1]
    for g in range(groups):
        outs, ins = slice(g * per_out, (g + 1) * per_out), slice(g * per_in, (g + 1) * per_in)
        for offset in itertools.product(*map(range, window)):
            steps = tuple(
                slice(o * dilation[d], o * dilation[d] + (out[d] - 1) * stride[d] + 1, stride[d])
                for d, o in enumerate(offset)
            )
            part = x[:, ins][whole_then(*steps)]
            kernel = w[outs][whole_then(*offset)].astype("float64")
            result[:, outs] += np.einsum("nc...,oc->no...", part, kernel)
    return result


def data(*shape: int) -> Any:
    return rng.uniform(-1, 1, shape).astype("float32")


def check(
    evaluate: Evaluate,
    build: Callable[[te.Tensor, te.Tensor], te.Tensor],
    x: Any,
    w: Any,
    expected: Any,
    tolerance: float = 1e-5,
) -> None:
    a, b = te.placeholder(x.shape, name="A"), te.placeholder(w.shape, name="W")
    result = evaluate(build(a, b), [a, b], x, w)
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def last(x: Any) -> Any:
    """Channels first to channels last."""
    return np.moveaxis(x, 1, -1)


def kernel_last(w: Any) -> Any:
    """OI... to ...IO."""
    return np.moveaxis(np.moveaxis(w, 0, -1), 0, -2)


SETTINGS = [
    # stride, before, after, dilation, groups
    ((1, 1), (0, 0), (0, 0), (1, 1), 1),
    ((2, 1), (1, 0), (2, 1), (1, 2), 1),
    ((1, 2), (1, 1), (1, 1), (2, 1), 2),
]


@pytest.mark.parametrize(("stride", "before", "after", "dilation", "groups"), SETTINGS)
def test_conv2d_direct(
    evaluate: Evaluate,
    stride: tuple[int, int],
    before: tuple[int, int],
    after: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> None:
    x, w = data(2, 4, 6, 7), data(6, 4 // groups, 3, 2)
    expected = reference(x, w, stride, before, after, dilation, groups)
    padding = (*before, *after)

    def nchw(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        return topi.nn.conv2d(a, b, stride, padding, dilation, "NCHW", groups=groups)

    def nhwc(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        return topi.nn.conv2d(a, b, stride, padding, dilation, "NHWC", groups=groups)

    check(evaluate, nchw, x, w, expected)
    check(evaluate, nhwc, last(x), kernel_last(w), last(expected))


@pytest.mark.parametrize(("stride", "before", "after", "dilation", "groups"), SETTINGS[:2])
def test_conv2d_im2col(
    evaluate: Evaluate,
    stride: tuple[int, int],
    before: tuple[int, int],
    after: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> None:
    x, w = data(2, 4, 6, 7), data(6, 4, 3, 2)
    expected = reference(x, w, stride, before, after, dilation)
    padding = (*before, *after)
    check(
        evaluate,
        lambda a, b: topi.nn.conv2d_im2col_nchw(a, b, stride, padding, dilation),
        x,
        w,
        expected,
    )
    check(
        evaluate,
        lambda a, b: topi.nn.conv2d_im2col_nhwc(a, b, stride, padding, dilation),
        last(x),
        kernel_last(w),
        last(expected),
    )


def test_conv2d_blocked(evaluate: Evaluate) -> None:
    x, w = data(1, 4, 6, 6), data(6, 4, 3, 3)
    expected = reference(x, w, (2, 2), (1, 1), (1, 1), (1, 1))
    blocked = x.reshape(1, 2, 2, 6, 6).transpose(0, 1, 3, 4, 2)
    kernel = w.reshape(2, 3, 2, 2, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    blocked_out = expected.reshape(1, 2, 3, 3, 3).transpose(0, 1, 3, 4, 2)
    check(
        evaluate,
        lambda a, b: topi.nn.conv2d(a, b, 2, 1, 1, "NCHW2c"),
        blocked,
        kernel,
        blocked_out,
    )


@pytest.mark.parametrize("n", [1, 3])
def test_conv1d_and_conv3d(evaluate: Evaluate, n: int) -> None:
    x, w = data(1, 3, *[5] * n), data(4, 3, *[3] * n)
    ones, twos = [1] * n, [2] * n
    expected = reference(x, w, twos, ones, ones, ones)
    first, final = {1: ("NCW", "NWC"), 3: ("NCDHW", "NDHWC")}[n]
    conv: Callable[..., te.Tensor] = {1: topi.nn.conv1d, 3: topi.nn.conv3d}[n]
    check(evaluate, lambda a, b: conv(a, b, 2, 1, 1, 1, first), x, w, expected)
    check(
        evaluate,
        lambda a, b: conv(a, b, 2, 1, 1, 1, final),
        last(x),
        kernel_last(w),
        last(expected),
    )


def test_depthwise(evaluate: Evaluate) -> None:
    x, w = data(2, 3, 6, 6), data(3, 2, 3, 3)
    grouped = w.reshape(6, 1, 3, 3)
    expected = reference(x, grouped, (2, 2), (1, 1), (1, 1), (1, 1), groups=3)
    check(evaluate, lambda a, b: topi.nn.depthwise_conv2d_nchw(a, b, 2, 1), x, w, expected)
    check(
        evaluate,
        lambda a, b: topi.nn.depthwise_conv2d_nhwc(a, b, 2, 1),
        last(x),
        w.transpose(2, 3, 0, 1),
        last(expected),
    )


def transposed_reference(x: Any, w: Any, stride: int, padding: int, extra: int) -> Any:
    """Every input element adds its scaled kernel to the output."""
    n = x.ndim - 2
    size = [(e - 1) * stride + w.shape[2] + extra for e in x.shape[2:]]
    result = np.zeros((x.shape[0], w.shape[1], *size))
    for position in itertools.product(*map(range, x.shape[2:])):
        value = x[whole_then(*position)]
        where = tuple(slice(p * stride, p * stride + w.shape[2]) for p in position)
        result[whole_then(*where)] += np.tensordot(value, w, (1, 0))
    inner = tuple(slice(padding, e - padding) for e in size)
    assert n == len(inner)
    return result[whole_then(*inner)]


@pytest.mark.parametrize(
    ("n", "stride", "padding", "extra"), [(1, 2, 1, 0), (2, 2, 1, 1), (2, 1, 0, 0), (3, 2, 1, 0)]
)
def test_transposed(evaluate: Evaluate, n: int, stride: int, padding: int, extra: int) -> None:
    x, w = data(1, 2, *[3] * n), data(2, 3, *[3] * n)
    conv: Callable[..., te.Tensor] = {
        1: topi.nn.conv1d_transpose_ncw,
        2: topi.nn.conv2d_transpose_nchw,
        3: topi.nn.conv3d_transpose_ncdhw,
    }[n]
    expected = transposed_reference(x, w, stride, padding, extra)
    check(evaluate, lambda a, b: conv(a, b, stride, padding, None, extra), x, w, expected)


@pytest.mark.parametrize("pre_computed", [False, True])
@pytest.mark.parametrize(("tile_size", "size", "padding"), [(2, 6, 1), (4, 7, 1), (4, 6, 0)])
def test_winograd(
    evaluate: Evaluate, tile_size: int, size: int, padding: int, pre_computed: bool
) -> None:
    x, w = data(2, 3, size, size), data(4, 3, 3, 3)
    pads = (padding, padding)
    expected = reference(x, w, (1, 1), pads, pads, (1, 1))
    given_nchw, given_nhwc = w, kernel_last(w)
    if pre_computed:
        g = np.array(transform_matrices(tile_size, 3)[2], dtype="float64")
        packed = np.einsum("ar,bs,oirs->aboi", g, g, w).astype("float32")
        given_nchw, given_nhwc = packed.transpose(0, 1, 3, 2), packed
    options: dict[str, Any] = {"pre_computed": pre_computed, "tile_size": tile_size}
    check(
        evaluate,
        lambda a, b: topi.nn.conv2d_winograd_nchw(a, b, 1, padding, **options),
        x,
        given_nchw,
        expected,
        1e-4,
    )
    check(
        evaluate,
        lambda a, b: topi.nn.conv2d_winograd_nhwc(a, b, 1, padding, **options),
        last(x),
        given_nhwc,
        last(expected),
        1e-4,
    )


def test_winograd_weight_transform(evaluate: Evaluate) -> None:
    w = data(2, 3, 3, 3)
    kernel = te.placeholder(w.shape, name="W")
    result = evaluate(topi.nn.conv2d_winograd_weight_transform(kernel, 4), [kernel], w)
    g = np.array(transform_matrices(4, 3)[2], dtype="float64")
    np.testing.assert_allclose(result, np.einsum("ar,bs,oirs->aboi", g, g, w), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("m", "r"), [(2, 3), (3, 2), (4, 3), (6, 3), (4, 5), (2, 5)])
def test_winograd_matrices_are_exact(m: int, r: int) -> None:
    a, b, g = (np.array(matrix, dtype=object) for matrix in transform_matrices(m, r))
    signal = np.array(range(1, m + r), dtype=object)
    taps = np.array(range(2, 2 + r), dtype=object)
    expected = [sum(signal[i + k] * taps[k] for k in range(r)) for i in range(m)]
    assert list(a.T @ ((g @ taps) * (b.T @ signal))) == expected


IMAGE, KERNEL = te.placeholder((1, 4, 8, 8), name="A"), te.placeholder((6, 4, 3, 3), name="W")
ERRORS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: topi.nn.conv2d(IMAGE, te.placeholder((6, 3, 3, 3), name="W"), 1, 0, 1),
        "conv2d_nchw: the input channels of data and kernel differ: 4 and 3",
    ),
    (
        lambda: topi.nn.conv2d(IMAGE, KERNEL, 1, 0, 4),
        "conv2d_nchw: a kernel that reaches over 9 elements does not fit the padded extent 8 of "
        "spatial axis 0",
    ),
    (
        lambda: topi.nn.conv2d(IMAGE, KERNEL, 1, (1, 2, 3), 1),
        "conv2d_nchw: padding must have 1, 2 or 4 values, got 3",
    ),
    (
        lambda: topi.nn.conv2d(IMAGE, KERNEL, 1, "HALF", 1),
        "conv2d_nchw: padding 'HALF' is unknown, expected 'VALID', 'SAME' or numbers",
    ),
    (
        lambda: topi.nn.conv2d(IMAGE, KERNEL, 1, -1, 1),
        "conv2d_nchw: padding [-1, -1, -1, -1] must not be negative",
    ),
    (
        lambda: topi.nn.conv2d(IMAGE, KERNEL, 0, 1, 1),
        "conv2d_nchw: stride and dilation must be positive",
    ),
    (
        lambda: topi.nn.conv2d(IMAGE, KERNEL, 1, 0, 1, "CHWN"),
        "conv2d: layout 'CHWN' is not supported, expected one of 'NCHW', 'NHWC'",
    ),
    (
        lambda: topi.nn.conv2d(IMAGE, KERNEL, 1, 0, 1, groups=3),
        "group_conv2d_nchw: 3 groups do not fit 4 input channels, 4 per group in the kernel, and "
        "6 output channels",
    ),
    (
        lambda: topi.nn.conv2d_transpose_nchw(IMAGE, te.placeholder((4, 6, 3, 3)), 2, 1, None, 2),
        "conv2d_transpose_nchw: output_padding 2 must be less than the stride 2",
    ),
    (
        lambda: topi.nn.conv2d_winograd_nchw(IMAGE, KERNEL, 2),
        "conv2d_winograd_nchw: stride and dilation must be 1, got [2, 2, 1, 1]",
    ),
    (
        lambda: topi.nn.conv2d_winograd_nchw(IMAGE, KERNEL, tile_size=20),
        "winograd: a transform with 21 points is not supported, at most 11; choose a smaller tile",
    ),
]


@pytest.mark.parametrize(("build", "message"), ERRORS)
def test_errors(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        build()
    assert str(error.value) == message


def test_same_padding_keeps_the_size() -> None:
    assert [int(e) for e in topi.nn.conv2d(IMAGE, KERNEL, 1, "SAME", 2).shape] == [1, 6, 8, 8]  # type: ignore[call-overload]


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("size", [1, 4, 5])
def test_transposed_by_phases(evaluate: Evaluate, stride: int, kernel: int, size: int) -> None:
    x, w = data(2, 3, size, size + 1), data(3, 2, kernel, kernel)
    conv = topi.nn.conv2d_transpose_nchw
    for padding in range(kernel):
        if (size - 1) * stride + kernel <= 2 * padding:
            continue
        for extra in range(stride):
            expected = transposed_reference(x, w, stride, padding, extra)
            options = {"strides": stride, "padding": padding, "output_padding": extra}
            check(evaluate, functools.partial(conv, **options), x, w, expected)
