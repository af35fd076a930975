"""Pooling against NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import TensorExpressionError

Evaluate = Callable[..., Any]
rng = np.random.default_rng(4)


def whole_then(*rest: Any) -> Any:
    """An index that keeps the first two axes whole."""
    return (slice(None), slice(None), *rest)


def reference(
    x: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: tuple[int, int],
    kind: str,
    ceil: bool,
    include_pad: bool,
) -> Any:
    """Pooling over all axes after the second, element by element."""
    n = x.ndim - 2
    reach = (kernel - 1) * dilation + 1
    rest = [e + sum(pad) - reach for e in x.shape[2:]]
    out = [(r + (stride - 1 if ceil else 0)) // stride + 1 for r in rest]
    result = np.zeros((*x.shape[:2], *out))
    for place in itertools.product(*map(range, out)):
        values, count = [], 0
        for offset in itertools.product(range(kernel), repeat=n):
            at = [p * stride + o * dilation - pad[0] for p, o in zip(place, offset, strict=True)]
            inside = all(0 <= a < e for a, e in zip(at, x.shape[2:], strict=True))
            padded = all(a < e + pad[1] for a, e in zip(at, x.shape[2:], strict=True))
            count += inside or (include_pad and padded)
            if inside:
                values.append(x[whole_then(*at)])
        stacked = np.array(values)
        value = stacked.max(0) if kind == "max" else stacked.sum(0) / count
        result[whole_then(*place)] = value
    return result


SETTINGS = [
    # kernel, stride, dilation, pad, ceil, include_pad
    (2, 2, 1, (0, 0), False, True),
    (3, 2, 1, (1, 1), False, True),
    (3, 2, 1, (1, 1), False, False),
    (3, 2, 1, (0, 0), True, True),
    (3, 2, 1, (1, 1), True, False),
    (2, 1, 2, (1, 1), False, False),
    (2, 1, 2, (1, 1), False, True),
]


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize(("kernel", "stride", "dilation", "pad", "ceil", "include_pad"), SETTINGS)
def test_pool2d(
    evaluate: Evaluate,
    kind: str,
    kernel: int,
    stride: int,
    dilation: int,
    pad: tuple[int, int],
    ceil: bool,
    include_pad: bool,
) -> None:
    x = rng.uniform(-1, 1, (1, 2, 6, 7)).astype("float32")
    expected = reference(x, kernel, stride, dilation, pad, kind, ceil, include_pad)
    padding = [pad[0], pad[0], pad[1], pad[1]]
    a = te.placeholder(x.shape, name="A")
    pooled = topi.nn.pool2d(a, kernel, stride, dilation, padding, kind, ceil, "NCHW", include_pad)
    np.testing.assert_allclose(evaluate(pooled, [a], x), expected, rtol=1e-5, atol=1e-6)
    y = np.moveaxis(x, 1, -1)
    b = te.placeholder(y.shape, name="B")
    pooled = topi.nn.pool2d(b, kernel, stride, dilation, padding, kind, ceil, "NHWC", include_pad)
    result = np.moveaxis(evaluate(pooled, [b], y), -1, 1)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("n", [1, 3])
def test_pool1d_and_pool3d(evaluate: Evaluate, n: int, kind: str) -> None:
    x = rng.uniform(-1, 1, (1, 2, *[5] * n)).astype("float32")
    a = te.placeholder(x.shape, name="A")
    pool: Callable[..., te.Tensor] = {1: topi.nn.pool1d, 3: topi.nn.pool3d}[n]
    result = evaluate(pool(a, 2, 2, 1, [1] * 2 * n, kind), [a], x)
    expected = reference(x, 2, 2, 1, (1, 1), kind, False, True)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_global_pool(evaluate: Evaluate, kind: str) -> None:
    x = rng.uniform(-1, 1, (2, 3, 4, 5)).astype("float32")
    a = te.placeholder(x.shape, name="A")
    result = evaluate(topi.nn.global_pool(a, kind), [a], x)
    whole = x.max((2, 3), keepdims=True) if kind == "max" else x.mean((2, 3), keepdims=True)
    np.testing.assert_allclose(result, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("size", [(3, 3), (2, 7), (1, 1)])
def test_adaptive_pool(evaluate: Evaluate, kind: str, size: tuple[int, int]) -> None:
    x = rng.uniform(-1, 1, (1, 2, 8, 7)).astype("float32")
    a = te.placeholder(x.shape, name="A")
    result = evaluate(topi.nn.adaptive_pool(a, size, kind), [a], x)
    expected = np.zeros((1, 2, *size))
    for i, j in itertools.product(range(size[0]), range(size[1])):
        rows = slice(i * 8 // size[0], -(-(i + 1) * 8 // size[0]))
        columns = slice(j * 7 // size[1], -(-(j + 1) * 7 // size[1]))
        window = x[:, :, rows, columns]
        expected[:, :, i, j] = window.max((2, 3)) if kind == "max" else window.mean((2, 3))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_max_of_integers_pads_with_the_lowest_value(evaluate: Evaluate) -> None:
    x = np.full((1, 1, 2, 2), -100, "int8")
    a = te.placeholder(x.shape, "int8", "A")
    result = evaluate(topi.nn.pool2d(a, 2, 1, 1, [1] * 4, "max"), [a], x)
    assert (result == -100).all()


ERRORS: list[tuple[Callable[[te.Tensor], Any], str]] = [
    (
        lambda a: topi.nn.pool2d(a, 2, 2, 1, 0, "sum"),
        "pool2d: unknown pool_type 'sum', expected 'max' or 'avg'",
    ),
    (
        lambda a: topi.nn.pool2d(a, 2, 2, 1, 0, "max", layout="NCW"),
        "pool2d: layout 'NCW' does not fit a tensor of 4 dimensions",
    ),
    (
        lambda a: topi.nn.pool2d(a, 9, 1, 1, 0, "max"),
        "pooling: a window of 9 does not fit the padded extent 6 of axis 2 of A",
    ),
    (
        lambda a: topi.nn.pool2d(a, [2, 2, 2], 1, 1, 0, "max"),
        "pool2d kernel: expected 2 values, got 3",
    ),
    (
        lambda a: topi.nn.adaptive_pool(a, 0, "max"),
        "adaptive_pool: output size 0 must be positive",
    ),
    (
        lambda a: topi.nn.global_pool(a, "max", "NCAB"),
        "global_pool: layout 'NCAB' has no spatial axes D, H or W",
    ),
]


@pytest.mark.parametrize(("build", "message"), ERRORS)
def test_errors(build: Callable[[te.Tensor], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        build(te.placeholder((1, 2, 6, 7), name="A"))
    assert str(error.value) == message
