"""group_norm and instance_norm against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import TensorExpressionError

Run = Callable[..., Any]
RNG = np.random.default_rng(17)


def normalized(x: Any, gamma: Any, beta: Any, groups: int, epsilon: float = 1e-5) -> Any:
    """For channels on axis 1, over all axes behind it."""
    wide = x.astype("float64")
    parts = wide.reshape(x.shape[0], groups, -1)
    mean, variance = parts.mean(2, keepdims=True), parts.var(2, keepdims=True)
    result = ((parts - mean) / np.sqrt(variance + epsilon)).reshape(x.shape)
    shape = (1, -1, *[1] * (x.ndim - 2))
    return result * gamma.astype("float64").reshape(shape) + beta.astype("float64").reshape(shape)


def parameters(channels: int, dtype: Any) -> list[Any]:
    return [RNG.uniform(-2, 2, channels).astype(dtype) for _ in range(2)]


@pytest.mark.parametrize(
    ("shape", "groups"),
    [((2, 6, 5, 3), 3), ((2, 6, 7), 1), ((1, 4, 1, 1), 4), ((3, 6), 2), ((2, 4, 2, 3, 5), 2)],
)
def test_group_norm(compiled: Run, shape: tuple[int, ...], groups: int) -> None:
    x = RNG.uniform(-3, 5, shape).astype("float32")
    gamma, beta = parameters(shape[1], "float32")
    axes = list(range(2, len(shape)))
    result = compiled(lambda a, g, b: topi.nn.group_norm(a, g, b, groups, 1, axes), x, gamma, beta)
    np.testing.assert_allclose(result, normalized(x, gamma, beta, groups), rtol=1e-4, atol=1e-4)


def test_channels_last(compiled: Run) -> None:
    x = RNG.uniform(-3, 5, (2, 3, 5, 6)).astype("float32")
    gamma, beta = parameters(6, "float32")
    result = compiled(lambda a, g, b: topi.nn.group_norm(a, g, b, 2, -1, [1, 2]), x, gamma, beta)
    expected = normalized(x.transpose(0, 3, 1, 2), gamma, beta, 2).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "error"),
    [("float16", 4e-3), (ml_dtypes.bfloat16, 3e-2), ("float32", 1e-5), ("float64", 1e-12)],
)
def test_types(compiled: Run, dtype: Any, error: float) -> None:
    x = RNG.uniform(100, 104, (2, 4, 31)).astype(dtype)
    gamma, beta = parameters(4, dtype)
    arguments = (x, gamma, beta)
    result = compiled(lambda a, g, b: topi.nn.instance_norm(a, g, b, 1, [2]), *arguments)
    assert result.dtype == x.dtype
    expected = normalized(x, gamma, beta, 4)
    np.testing.assert_allclose(result.astype("float64"), expected, rtol=error, atol=20 * error)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_narrow_floats_are_added_in_float32(compiled: Run, dtype: Any) -> None:
    x = np.tile(np.array([1, 3], dtype), 4000).reshape(1, 1, -1)  # a sum of 16000
    result = compiled(lambda a: topi.nn.instance_norm(a, None, None, 1, [2]), x)
    np.testing.assert_allclose(result[0, 0, :2].astype("float64"), [-1, 1], rtol=1e-2)


def test_special_values(compiled: Run) -> None:
    x = np.array([[[1, np.nan, 2], [np.inf, 1, 2], [5, 5, 5]]], "float32")
    result = compiled(lambda a: topi.nn.instance_norm(a, None, None, 1, [2]), x)
    assert np.isnan(result[0, :2]).all()
    assert (result[0, 2] == 0).all()


def test_empty_batch(compiled: Run) -> None:
    x = np.zeros((0, 4, 3), "float32")
    result = compiled(lambda a: topi.nn.group_norm(a, None, None, 2, 1, [2]), x)
    assert result.shape == x.shape


def test_interpreted(evaluate: Run) -> None:
    x = RNG.uniform(-1, 1, (1, 4, 3)).astype("float32")
    a = te.placeholder(x.shape, name="A")
    result = evaluate(topi.nn.group_norm(a, None, None, 2, 1, [2]), [a], x)
    expected = normalized(x, np.ones(4), np.zeros(4), 2)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


A = te.placeholder((2, 6, 5), name="A")
G = te.placeholder((6,), name="G")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: topi.nn.group_norm(A, G, G, 4, 1, [2]),
            "group_norm: 6 channels cannot be divided into 4 groups",
        ),
        (
            lambda: topi.nn.group_norm(A, G, G, 0, 1, [2]),
            "group_norm: 6 channels cannot be divided into 0 groups",
        ),
        (
            lambda: topi.nn.group_norm(A, G, G, 2, 1, [1, 2]),
            "group_norm: the channel axis 1 must not be among axes [1, 2]",
        ),
        (
            lambda: topi.nn.instance_norm(A, G, te.placeholder((5,), name="B"), 1, [2]),
            "instance_norm: the number of channels and the extent of B differ: 6 and 5",
        ),
        (
            lambda: topi.nn.instance_norm(topi.cast(A, "int32"), G, G, 1, [2]),
            "instance_norm: compute is int32; cast it to a float type",
        ),
    ],
)
def test_refusals(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        build()
    assert str(error.value) == message
