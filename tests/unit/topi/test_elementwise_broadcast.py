"""Elementwise and broadcasting operators against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import IRError, TensorExpressionError

Evaluate = Callable[..., Any]
rng = np.random.default_rng(0)
X = rng.uniform(0.1, 0.9, (3, 4)).astype("float32")
SIGNED = rng.uniform(-2.5, 2.5, (3, 4)).astype("float32")

UNARY: list[tuple[str, Callable[[Any], Any], Any]] = [
    ("identity", lambda x: x, X),
    ("negative", np.negative, SIGNED),
    ("exp", np.exp, X),
    ("exp2", np.exp2, X),
    ("log", np.log, X),
    ("log2", np.log2, X),
    ("log10", np.log10, X),
    ("log1p", np.log1p, X),
    ("sqrt", np.sqrt, X),
    ("rsqrt", lambda x: 1 / np.sqrt(x), X),
    ("sin", np.sin, X),
    ("cos", np.cos, X),
    ("tan", np.tan, X),
    ("asin", np.arcsin, X),
    ("acos", np.arccos, X),
    ("atan", np.arctan, X),
    ("sinh", np.sinh, X),
    ("cosh", np.cosh, X),
    ("tanh", np.tanh, X),
    ("asinh", np.arcsinh, X),
    ("acosh", np.arccosh, X + 1),
    ("atanh", np.arctanh, X),
    ("erf", np.vectorize(math.erf), SIGNED),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), SIGNED),
    ("floor", np.floor, SIGNED),
    ("ceil", np.ceil, SIGNED),
    ("trunc", np.trunc, SIGNED),
    ("round", np.round, SIGNED),
    ("abs", np.abs, SIGNED),
    ("sign", np.sign, SIGNED),
]


@pytest.mark.parametrize(("name", "reference", "x"), UNARY, ids=[row[0] for row in UNARY])
def test_unary(evaluate: Evaluate, name: str, reference: Callable[[Any], Any], x: Any) -> None:
    a = te.placeholder(x.shape, name="A")
    result = evaluate(getattr(topi, name)(a), [a], x)
    np.testing.assert_allclose(result, reference(x), rtol=1e-5, atol=1e-6)


def test_round_ties_go_to_even(evaluate: Evaluate) -> None:
    a = te.placeholder((4,), name="A")
    x = np.array([0.5, 1.5, 2.5, -0.5], "float32")
    np.testing.assert_array_equal(evaluate(topi.round(a), [a], x), [0, 2, 2, 0])


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_float_tests(evaluate: Evaluate, name: str) -> None:
    x = np.array([1.0, np.inf, -np.inf, np.nan], "float32")
    a = te.placeholder((4,), name="A")
    np.testing.assert_array_equal(evaluate(getattr(topi, name)(a), [a], x), getattr(np, name)(x))


BINARY: list[tuple[str, Callable[[Any, Any], Any], str]] = [
    ("add", np.add, "float32"),
    ("subtract", np.subtract, "float32"),
    ("multiply", np.multiply, "float32"),
    ("divide", np.divide, "float32"),
    ("maximum", np.maximum, "float32"),
    ("minimum", np.minimum, "float32"),
    ("power", np.power, "float32"),
    ("floor_divide", np.floor_divide, "float32"),
    ("floor_mod", np.mod, "float32"),
    ("mod", np.fmod, "float32"),
    ("equal", np.equal, "int32"),
    ("not_equal", np.not_equal, "int32"),
    ("less", np.less, "float32"),
    ("less_equal", np.less_equal, "int32"),
    ("greater", np.greater, "float32"),
    ("greater_equal", np.greater_equal, "int32"),
    ("floor_divide", np.floor_divide, "int32"),
    ("floor_mod", np.mod, "int32"),
    ("mod", np.fmod, "int32"),
    ("bitwise_and", np.bitwise_and, "int32"),
    ("bitwise_or", np.bitwise_or, "int32"),
    ("bitwise_xor", np.bitwise_xor, "int32"),
    ("left_shift", np.left_shift, "int32"),
    ("right_shift", np.right_shift, "int32"),
]


@pytest.mark.parametrize(("name", "reference", "dtype"), BINARY)
def test_binary_broadcasts_from_the_right(
    evaluate: Evaluate, name: str, reference: Callable[[Any, Any], Any], dtype: str
) -> None:
    low = 1 if "shift" in name or name == "power" else -5
    x = rng.integers(low, 6, (2, 1, 3)).astype(dtype)
    y = rng.integers(1, 4, (4, 3)).astype(dtype)
    a = te.placeholder(x.shape, dtype, "A")
    b = te.placeholder(y.shape, dtype, "B")
    result = evaluate(getattr(topi, name)(a, b), [a, b], x, y)
    np.testing.assert_allclose(result, reference(x, y), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["logical_and", "logical_or"])
def test_logical(evaluate: Evaluate, name: str) -> None:
    x = np.array([[True, False]])
    y = np.array([[True], [False]])
    a, b = te.placeholder((1, 2), "bool", "A"), te.placeholder((2, 1), "bool", "B")
    result = evaluate(getattr(topi, name)(a, b), [a, b], x, y)
    np.testing.assert_array_equal(result, getattr(np, name)(x, y))


def test_scalars_take_the_type_of_the_tensor() -> None:
    a = te.placeholder((4,), "int8", "A")
    assert topi.add(a, 1).dtype == "int8"
    assert topi.multiply(2, a).dtype == "int8"


def test_operators_on_whole_tensors(evaluate: Evaluate) -> None:
    a, b = te.placeholder((3, 4), name="A"), te.placeholder((4,), name="B")
    y = X[0]
    result = evaluate((a + b * 2.0 - 1.0) / (1.0 + b), [a, b], X, y)
    np.testing.assert_allclose(result, (X + y * 2 - 1) / (1 + y), rtol=1e-6)
    np.testing.assert_allclose(evaluate(-a, [a], X), -X)
    np.testing.assert_array_equal(
        evaluate((a * 10.0).astype("int32"), [a], X), (X * 10).astype(int)
    )


def test_tensor_names() -> None:
    a = te.placeholder((4,), name="A")
    assert topi.add(a, 1.0).op.name == "T_add"
    assert topi.exp(a).op.name == "compute"
    assert topi.sign(a).op.name == "T_sign"


def test_clip_and_cast(evaluate: Evaluate) -> None:
    a = te.placeholder((3, 4), name="A")
    np.testing.assert_array_equal(
        evaluate(topi.clip(a, -1.0, 1.0), [a], SIGNED), np.clip(SIGNED, -1, 1)
    )
    np.testing.assert_array_equal(
        evaluate(topi.cast(a, "int32"), [a], SIGNED), SIGNED.astype("int32")
    )


def test_broadcast_to(evaluate: Evaluate) -> None:
    a = te.placeholder((3, 1), name="A")
    result = evaluate(topi.broadcast_to(a, (2, 3, 4)), [a], X[:, :1])
    np.testing.assert_array_equal(result, np.broadcast_to(X[:, :1], (2, 3, 4)))


def test_symbolic_extents_broadcast() -> None:
    n = te.var("n")
    a, b = te.placeholder((n, 4), name="A"), te.placeholder((n, 1), name="B")
    assert topi.add(a, b).shape[0] is n


def test_mismatched_shapes_are_refused() -> None:
    a, b = te.placeholder((3, 4), name="A"), te.placeholder((5, 4), name="B")
    with pytest.raises(TensorExpressionError) as error:
        topi.add(a, b)
    assert str(error.value) == ("add: shapes (3, 4) and (5, 4) do not match: extent 3 against 5")
    with pytest.raises(TensorExpressionError) as error:
        topi.broadcast_to(a, (4, 3))
    assert "broadcast_to: shapes (3, 4) and (4, 3) do not match" in str(error.value)
    with pytest.raises(TensorExpressionError) as error:
        topi.broadcast_to(a, (4,))
    assert str(error.value) == "broadcast_to: shape (3, 4) cannot be stretched to (4)"
    with pytest.raises(TensorExpressionError) as error:
        topi.add(1, 2)
    assert str(error.value) == "add: at least one operand must be a tensor"


def test_divide_of_integers_is_ambiguous() -> None:
    a = te.placeholder((4,), "int32", "A")
    with pytest.raises(IRError, match="`/` on integers"):
        topi.divide(a, 2)
