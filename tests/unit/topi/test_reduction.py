"""Reductions against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import TensorExpressionError

Evaluate = Callable[..., Any]
X = np.random.default_rng(1).uniform(-2, 2, (3, 4, 5)).astype("float32")


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean"])
def test_against_numpy(evaluate: Evaluate, name: str, axis: Any, keepdims: bool) -> None:
    a = te.placeholder(X.shape, name="A")
    result = evaluate(getattr(topi, name)(a, axis, keepdims), [a], X)
    expected = getattr(np, name)(X, axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(evaluate: Evaluate, name: str, axis: Any, keepdims: bool) -> None:
    x = np.round(X)  # many ties: the first of them counts
    a = te.placeholder(x.shape, name="A")
    result = evaluate(getattr(topi, name)(a, axis, keepdims), [a], x)
    np.testing.assert_array_equal(result, getattr(np, name)(x, axis=axis, keepdims=keepdims))


def test_last_position_of_ties(evaluate: Evaluate) -> None:
    x = np.array([[1, 3, 3, 0]], "float32")
    a = te.placeholder(x.shape, name="A")
    assert evaluate(topi.argmax(a, 1, select_last_index=True), [a], x).tolist() == [2]


def test_any_and_all(evaluate: Evaluate) -> None:
    x = np.array([[True, False], [True, True], [False, False]])
    a = te.placeholder(x.shape, "bool", "A")
    np.testing.assert_array_equal(evaluate(topi.any(a, 1), [a], x), x.any(1))
    np.testing.assert_array_equal(evaluate(topi.all(a, 1), [a], x), x.all(1))


def test_names() -> None:
    a = te.placeholder((3, 4), name="A")
    assert topi.sum(a, 1).op.name == "A_red"
    positions = topi.argmax(a, 1)
    assert positions.op.name == "A_red"
    assert positions.op.input_tensors[0].name == "A_red_temp_v0"


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (2, "sum: axis 2 is out of range for a tensor of 2 dimensions"),
        ((0, -2), "sum: an axis is named twice in [0, -2]"),
    ],
)
def test_wrong_axes(axis: Any, message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        topi.sum(te.placeholder((3, 4), name="A"), axis)
    assert str(error.value) == message


def test_mean_of_integers_is_refused() -> None:
    with pytest.raises(TensorExpressionError) as error:
        topi.mean(te.placeholder((3,), "int32", "A"))
    assert str(error.value) == "mean: A is int32; give a float type as dtype="
