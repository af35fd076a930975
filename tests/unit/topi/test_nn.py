"""Activations, softmax, normalisation, dense and padding against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import TensorExpressionError

Evaluate = Callable[..., Any]
rng = np.random.default_rng(2)
X = rng.uniform(-2, 2, (3, 4)).astype("float32")
A = te.placeholder((3, 4), name="A")
erf = np.vectorize(math.erf)

ACTIVATIONS: list[tuple[str, Callable[[], te.Tensor], Any]] = [
    ("relu", lambda: topi.nn.relu(A), np.maximum(X, 0)),
    ("leaky_relu", lambda: topi.nn.leaky_relu(A, 0.1), np.where(X > 0, X, X * np.float32(0.1))),
    ("gelu", lambda: topi.nn.gelu(A), X * 0.5 * (1 + erf(X / math.sqrt(2)))),
    (
        "gelu_tanh",
        lambda: topi.nn.gelu(A, "tanh"),
        X * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3))),
    ),
    ("silu", lambda: topi.nn.silu(A), X / (1 + np.exp(-X))),
]


@pytest.mark.parametrize(("name", "build", "expected"), ACTIVATIONS)
def test_activations(
    evaluate: Evaluate, name: str, build: Callable[[], te.Tensor], expected: Any
) -> None:
    np.testing.assert_allclose(evaluate(build(), [A], X), expected, rtol=1e-5, atol=1e-6)


def test_prelu(evaluate: Evaluate) -> None:
    slope = te.placeholder((4,), name="s")
    s = rng.uniform(0, 1, 4).astype("float32")
    result = evaluate(topi.nn.prelu(A, slope, 1), [A, slope], X, s)
    np.testing.assert_allclose(result, np.where(X > 0, X, X * s), rtol=1e-6)


def _softmax(x: Any, axis: int) -> Any:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(evaluate: Evaluate, axis: int) -> None:
    x = (rng.uniform(-50, 50, (2, 3, 4))).astype("float32")
    a = te.placeholder(x.shape, name="A")
    result = evaluate(topi.nn.softmax(a, axis), [a], x)
    np.testing.assert_allclose(result, _softmax(x, axis), rtol=1e-5, atol=1e-7)
    result = evaluate(topi.nn.log_softmax(a, axis), [a], x)
    expected = np.log(_softmax(x.astype("float64"), axis))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_softmax_names() -> None:
    tensor = topi.nn.softmax(A)
    assert tensor.op.attrs == {"axis": 1}
    names = [tensor.op.name, *(t.op.name for t in tensor.op.input_tensors)]
    assert names == ["T_softmax_norm", "T_softmax_exp", "T_softmax_expsum"]


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_layer_norm(evaluate: Evaluate, offset: float) -> None:
    x = (rng.normal(size=(2, 3, 8)) + offset).astype("float32")
    gamma, beta = rng.normal(size=(2, 8)).astype("float32")
    a = te.placeholder(x.shape, name="A")
    g, b = te.placeholder((8,), name="gamma"), te.placeholder((8,), name="beta")
    wide = x.astype("float64")
    mean, variance = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
    normal = (wide - mean) / np.sqrt(variance + 1e-5)
    result = evaluate(topi.nn.layer_norm(a, g, b, [-1]), [a, g, b], x, gamma, beta)
    np.testing.assert_allclose(result, normal * gamma + beta, rtol=2e-3, atol=2e-3)
    result = evaluate(topi.nn.layer_norm(a, g, None, [2]), [a, g], x, gamma)
    np.testing.assert_allclose(result, normal * gamma, rtol=2e-3, atol=2e-3)


def test_layer_norm_over_two_axes_in_half_precision(evaluate: Evaluate) -> None:
    x = rng.normal(size=(2, 3, 4)).astype("float16")
    ones, zeros = np.ones((3, 4), "float16"), np.zeros((3, 4), "float16")
    a = te.placeholder(x.shape, "float16", "A")
    g, b = te.placeholder((3, 4), "float16", "g"), te.placeholder((3, 4), "float16", "b")
    result = evaluate(topi.nn.layer_norm(a, g, b, [1, 2]), [a, g, b], x, ones, zeros)
    wide = x.astype("float64")
    mean, variance = wide.mean((1, 2), keepdims=True), wide.var((1, 2), keepdims=True)
    np.testing.assert_allclose(result, (wide - mean) / np.sqrt(variance + 1e-5), atol=3e-3)


def test_rms_norm(evaluate: Evaluate) -> None:
    w = te.placeholder((4,), name="w")
    weight = rng.normal(size=4).astype("float32")
    expected = X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-5) * weight
    result = evaluate(topi.nn.rms_norm(A, w, [1]), [A, w], X, weight)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("axis", [1, 3])
def test_batch_norm(evaluate: Evaluate, axis: int) -> None:
    x = rng.normal(size=(2, 3, 4, 3)).astype("float32")
    parameters = [rng.uniform(0.5, 1.5, 3).astype("float32") for _ in range(4)]
    a = te.placeholder(x.shape, name="A")
    tensors = [te.placeholder((3,), name=name) for name in ("gamma", "beta", "mean", "var")]
    result = evaluate(
        topi.nn.batch_norm(a, tensors[0], tensors[1], tensors[2], tensors[3], axis),
        [a, *tensors],
        x,
        *parameters,
    )
    shape = [3 if d == axis else 1 for d in range(4)]
    gamma, beta, mean, var = (p.reshape(shape) for p in parameters)
    expected = (x - mean) / np.sqrt(var + 1e-5) * gamma + beta
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_scale_shift(evaluate: Evaluate) -> None:
    x = rng.normal(size=(2, 3, 4, 3)).astype("float32")
    s, h = rng.normal(size=(2, 3)).astype("float32")
    a, scale, shift = (
        te.placeholder(x.shape, name="A"),
        te.placeholder((3,), name="s"),
        te.placeholder((3,), name="h"),
    )
    result = evaluate(topi.nn.scale_shift_nhwc(a, scale, shift), [a, scale, shift], x, s, h)
    np.testing.assert_allclose(result, x * s + h, rtol=1e-6)
    result = evaluate(topi.nn.scale_shift_nchw(a, scale, shift), [a, scale, shift], x, s, h)
    expected = x * s[:, None, None] + h[:, None, None]
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_dense_and_matmul(evaluate: Evaluate) -> None:
    w = rng.normal(size=(5, 4)).astype("float32")
    bias = rng.normal(size=5).astype("float32")
    weight, b = te.placeholder((5, 4), name="W"), te.placeholder((5,), name="b")
    result = evaluate(topi.nn.dense(A, weight, b), [A, weight, b], X, w, bias)
    np.testing.assert_allclose(result, X @ w.T + bias, rtol=1e-5, atol=1e-6)
    turned = te.placeholder((4, 5), name="W")
    result = evaluate(topi.matmul(A, turned), [A, turned], X, w.T)
    np.testing.assert_allclose(result, X @ w.T, rtol=1e-5, atol=1e-6)
    left = te.placeholder((4, 3), name="L")
    result = evaluate(topi.nn.matmul(left, turned, transpose_a=True), [left, turned], X.T, w.T)
    np.testing.assert_allclose(result, X @ w.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("batch_a", "batch_b"), [(2, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_batch_matmul(evaluate: Evaluate, batch_a: int, batch_b: int, transpose_b: bool) -> None:
    x = rng.normal(size=(batch_a, 3, 4)).astype("float32")
    y = rng.normal(size=(batch_b, 4, 5)).astype("float32")
    given = y.transpose(0, 2, 1) if transpose_b else y
    a, b = te.placeholder(x.shape, name="A"), te.placeholder(given.shape, name="B")
    product = topi.nn.batch_matmul(a, b, transpose_b=transpose_b)
    assert product.op.name == ("T_batch_matmul_NT" if transpose_b else "T_batch_matmul_NN")
    result = evaluate(product, [a, b], x, given)
    np.testing.assert_allclose(result, x @ y, rtol=1e-5, atol=1e-6)


def test_mixed_precision_dense(evaluate: Evaluate) -> None:
    a, w = te.placeholder((2, 4), "int8", "A"), te.placeholder((3, 4), "int8", "W")
    x, y = (rng.integers(-128, 128, shape).astype("int8") for shape in ((2, 4), (3, 4)))
    result = evaluate(topi.nn.dense(a, w, None, "int32"), [a, w], x, y)
    np.testing.assert_array_equal(result, x.astype("int32") @ y.T.astype("int32"))


def test_pad_and_dilate(evaluate: Evaluate) -> None:
    result = evaluate(topi.nn.pad(A, [1, 0], [2, 1], 5.0), [A], X)
    np.testing.assert_array_equal(result, np.pad(X, [(1, 2), (0, 1)], constant_values=5))
    result = evaluate(topi.nn.dilate(A, [1, 3], -1.0), [A], X)
    expected = np.full((3, 10), -1, "float32")
    expected[:, ::3] = X
    np.testing.assert_array_equal(result, expected)


ERRORS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: topi.nn.pad(A, [1]),
        "pad: A has 2 dimensions, got 1 widths before and 1 after",
    ),
    (
        lambda: topi.nn.dense(A, te.placeholder((5, 3), name="W")),
        "matmul: the inner extents differ: 4 and 3",
    ),
    (
        lambda: topi.nn.dense(te.placeholder((4,), name="v"), A),
        "matmul: v must have at least 2 dimensions, it has 1",
    ),
    (
        lambda: topi.nn.batch_matmul(A, A),
        "batch_matmul: tensor A must have 3 dimensions, it has 2",
    ),
    (
        lambda: topi.nn.batch_matmul(te.placeholder((2, 3, 4)), te.placeholder((3, 3, 4))),
        "batch_matmul: the batch extents differ: 2 and 3",
    ),
    (
        lambda: topi.nn.softmax(A, 2),
        "softmax: axis 2 is out of range for a tensor of 2 dimensions",
    ),
    (
        lambda: topi.nn.gelu(A, "sigmoid"),
        "gelu: unknown approximation 'sigmoid', expected 'none' or 'tanh'",
    ),
    (
        lambda: topi.nn.layer_norm(A, te.placeholder((3,), name="g"), None, [1]),
        "layer_norm: the extents of g and the data differ: 3 and 4",
    ),
    (
        lambda: topi.nn.dilate(A, [2]),
        "dilate: A has 2 dimensions, got 1 strides",
    ),
]


@pytest.mark.parametrize(("build", "message"), ERRORS)
def test_errors(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        build()
    assert str(error.value) == message
