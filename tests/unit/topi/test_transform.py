"""Operators that move or choose elements, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import TensorExpressionError

Evaluate = Callable[..., Any]
X = np.arange(24, dtype="float32").reshape(2, 3, 4)
A = te.placeholder((2, 3, 4), name="A")

CASES: list[tuple[str, Callable[[], te.Tensor], Any]] = [
    ("transpose", lambda: topi.transpose(A, [0, 2, 1]), X.transpose(0, 2, 1)),
    ("transpose_default", lambda: topi.transpose(A), X.transpose()),
    ("reshape", lambda: topi.reshape(A, (4, 6)), X.reshape(4, 6)),
    ("reshape_minus_one", lambda: topi.reshape(A, (4, -1)), X.reshape(4, 6)),
    ("expand_dims", lambda: topi.expand_dims(A, 1, 2), X[:, None, None]),
    ("expand_dims_end", lambda: topi.expand_dims(A, -1), X[..., None]),
    ("squeeze", lambda: topi.squeeze(topi.reshape(A, (2, 1, 12, 1))), X.reshape(2, 12)),
    ("squeeze_axis", lambda: topi.squeeze(topi.reshape(A, (2, 1, 12, 1)), -1), X.reshape(2, 1, 12)),
    ("flip", lambda: topi.flip(A, 1), X[:, ::-1]),
    ("repeat", lambda: topi.repeat(A, 2, 1), X.repeat(2, 1)),
    ("tile", lambda: topi.tile(A, (1, 2, 3)), np.tile(X, (1, 2, 3))),
    ("stack", lambda: topi.stack([A, A, A], 1), np.stack([X] * 3, 1)),
    (
        "concatenate",
        lambda: topi.concatenate([A, topi.negative(A), A], 1),
        np.concatenate([X, -X, X], 1),
    ),
    ("slice", lambda: topi.strided_slice(A, [0, 1], [2, 3]), X[0:2, 1:3]),
    ("slice_step", lambda: topi.strided_slice(A, [0, 0, 0], [2, 3, 4], [1, 2, 3]), X[:, ::2, ::3]),
    (
        "slice_negative",
        lambda: topi.strided_slice(A, [-1, 2], [-99, 0], [-1, -1]),
        X[-1::-1, 2:0:-1],
    ),
    ("slice_axes", lambda: topi.strided_slice(A, [1], [3], None, [2]), X[:, :, 1:3]),
    ("full_like", lambda: topi.full_like(A, 2.0), np.full_like(X, 2)),
    ("flatten", lambda: topi.nn.flatten(A), X.reshape(2, 12)),
]


@pytest.mark.parametrize(("name", "build", "expected"), CASES, ids=[row[0] for row in CASES])
def test_against_numpy(
    evaluate: Evaluate, name: str, build: Callable[[], te.Tensor], expected: Any
) -> None:
    np.testing.assert_array_equal(evaluate(build(), [A], X), expected)


def test_split(evaluate: Evaluate) -> None:
    parts = evaluate(topi.split(A, [1, 3], 2), [A], X)
    for part, expected in zip(parts, np.split(X, [1, 3], 2), strict=True):
        np.testing.assert_array_equal(part, expected)
    halves = evaluate(topi.split(A, 2, 2), [A], X)
    np.testing.assert_array_equal(halves[1], X[:, :, 2:])


def test_take(evaluate: Evaluate) -> None:
    indices = te.placeholder((2, 2), "int32", "I")
    chosen = np.array([[0, 3], [1, 1]], "int32")
    result = evaluate(topi.take(A, indices, 2), [A, indices], X, chosen)
    np.testing.assert_array_equal(result, X.take(chosen, 2))
    flat = evaluate(topi.take(A, indices), [A, indices], X, chosen)
    np.testing.assert_array_equal(flat, X.take(chosen))


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_take_out_of_range(evaluate: Evaluate, mode: Any) -> None:
    indices = te.placeholder((4,), "int32", "I")
    chosen = np.array([-5, -1, 4, 9], "int32")
    result = evaluate(topi.take(A, indices, 2, mode), [A, indices], X, chosen)
    np.testing.assert_array_equal(result, X.take(chosen, 2, mode=mode))


def test_gather(evaluate: Evaluate) -> None:
    indices = te.placeholder((2, 3, 2), "int32", "I")
    chosen = np.array([[[0, 1], [3, 3], [2, 0]], [[1, 1], [0, 2], [3, 0]]], "int32")
    result = evaluate(topi.gather(A, 2, indices), [A, indices], X, chosen)
    np.testing.assert_array_equal(result, np.take_along_axis(X, chosen.astype("int64"), 2))


def test_gather_nd(evaluate: Evaluate) -> None:
    indices = te.placeholder((2, 3), "int32", "I")
    chosen = np.array([[0, 1, 1], [2, 0, 1]], "int32")
    result = evaluate(topi.gather_nd(A, indices), [A, indices], X, chosen)
    np.testing.assert_array_equal(result, X[chosen[0], chosen[1]])


@pytest.mark.parametrize("dtype", ["bool", "int32"])
def test_where(evaluate: Evaluate, dtype: str) -> None:
    condition = te.placeholder((3, 1), dtype, "C")
    c = np.array([[1], [0], [1]], dtype)
    result = evaluate(topi.where(condition, A, -1.0), [condition, A], c, X)
    np.testing.assert_array_equal(result, np.where(c, X, -1))


def test_one_hot_and_creation(evaluate: Evaluate) -> None:
    indices = te.placeholder((3,), "int32", "I")
    chosen = np.array([2, 0, 4], "int32")
    result = evaluate(topi.one_hot(indices, 1.0, 0.0, 5, -1, "float32"), [indices], chosen)
    np.testing.assert_array_equal(result, np.eye(5)[chosen])
    np.testing.assert_array_equal(evaluate(topi.arange(3, 11, 3, "int32"), []), [3, 6, 9])
    np.testing.assert_array_equal(evaluate(topi.full((2, 2), "int8", 7), []), np.full((2, 2), 7))


ERRORS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: topi.transpose(A, [0, 0, 1]),
        "transpose: axes [0, 0, 1] is not a permutation of the 3 axes of A",
    ),
    (lambda: topi.reshape(A, (5, 5)), "reshape: A has 24 elements, shape (5, 5) has 25"),
    (lambda: topi.reshape(A, (-1, -1)), "reshape: only one extent may be -1, got [-1, -1]"),
    (lambda: topi.squeeze(A, 1), "squeeze: axis 1 of A has extent 3, expected 1"),
    (lambda: topi.split(A, 2, 1), "split: extent 3 cannot be split into 2 equal parts"),
    (
        lambda: topi.split(A, [3, 1], 2),
        "split: positions [3, 1] must be increasing and at most 4",
    ),
    (lambda: topi.concatenate([]), "concatenate: at least one tensor is needed"),
    (
        lambda: topi.concatenate([A, topi.transpose(A)], 0),
        "concatenate: the extents of A and T_transpose at axis 2 differ: 4 and 2",
    ),
    (
        lambda: topi.stack([A, topi.cast(A, "int8")]),
        "stack: A (3 dimensions, float32) and compute (3 dimensions, int8) cannot be joined",
    ),
    (
        lambda: topi.take(A, te.placeholder((1,), "int32"), 0, "nearest"),
        "take: unknown mode 'nearest', expected one of 'fast', 'clip', 'wrap'",
    ),
    (
        lambda: topi.strided_slice(A, [0], [1], [0]),
        "strided_slice: the stride of axis 0 is zero",
    ),
    (
        lambda: topi.tile(A, (2,)),
        "tile: A has 3 dimensions, got 1 repetitions",
    ),
    (lambda: topi.arange(0, 3, 0), "arange: step must not be zero"),
    (
        lambda: topi.gather(A, 0, te.placeholder((2,), "int32")),
        "gather: indices must have 3 dimensions as data, it has 1",
    ),
]


@pytest.mark.parametrize(("build", "message"), ERRORS)
def test_errors(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        build()
    assert str(error.value) == message
