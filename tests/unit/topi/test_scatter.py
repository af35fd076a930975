"""scatter_elements and scatter_nd against loops over NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import TensorExpressionError

Run = Callable[..., Any]
RNG = np.random.default_rng(9)
A = te.placeholder((3, 4), name="A")
I = te.placeholder((3, 4), "int32", "I")
U = te.placeholder((3, 4), name="U")
COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def elements(data: Any, indices: Any, updates: Any, axis: int, reduction: str) -> Any:
    out = data.astype("float64")
    extent = data.shape[axis]
    for place in np.ndindex(*indices.shape):
        index = int(indices[place])
        index += extent if index < 0 else 0
        if 0 <= index < extent:
            target = (*place[:axis], index, *place[axis + 1 :])
            out[target] = COMBINE[reduction](out[target], np.float64(updates[place]))
    return out


@pytest.mark.parametrize("reduction", list(COMBINE))
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements(compiled: Run, reduction: str, axis: int) -> None:
    data = RNG.standard_normal((5, 7)).astype("float32")
    indices = RNG.integers(-10, 10, (4, 6)).astype("int32")  # some lie outside, some twice
    updates = RNG.standard_normal((4, 6)).astype("float32")
    result = compiled(
        lambda d, i, u: topi.scatter_elements(d, i, u, axis, reduction), data, indices, updates
    )
    expected = elements(data, indices, updates, axis % 2, reduction)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "dtype", ["float16", ml_dtypes.bfloat16, "float32", "float64", "int8", "int32", "int64"]
)
@pytest.mark.parametrize("index", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_types(compiled: Run, dtype: Any, index: str) -> None:
    data = RNG.integers(0, 5, 11).astype(dtype)
    indices = np.array([0, 10, 10, 127, 3], index)
    updates = np.array([1, 2, 3, 50, 5], dtype)
    result = compiled(
        lambda d, i, u: topi.scatter_elements(d, i, u, reduction="add"), data, indices, updates
    )
    assert result.dtype == data.dtype
    expected = elements(data, indices, updates, 0, "add")
    np.testing.assert_array_equal(result.astype("float64"), expected)


@pytest.mark.parametrize("index", [2**31, 2**33, -(2**40), 2**63 - 1, -(2**63), -12])
def test_far_outside(compiled: Run, index: int) -> None:
    data = np.arange(11, dtype="int32")
    result = compiled(topi.scatter_elements, data, np.array([index]), np.array([99], "int32"))
    np.testing.assert_array_equal(result, data)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_narrow_floats_are_added_in_float32(compiled: Run, dtype: Any) -> None:
    data, updates = np.zeros(2, dtype), np.ones(5000, dtype)
    indices = np.zeros(5000, "int32")
    result = compiled(
        lambda d, i, u: topi.scatter_elements(d, i, u, reduction="add"), data, indices, updates
    )
    assert float(result[0]) == pytest.approx(5000, rel=4e-3)


def test_special_values(compiled: Run) -> None:
    data = np.array([np.nan, 1, 2, np.inf, 0.0], "float32")
    indices = np.arange(5, dtype="int32")
    updates = np.array([1, np.nan, np.inf, -np.inf, -0.0], "float32")
    for reduction in COMBINE:
        result = compiled(
            lambda d, i, u, how=reduction: topi.scatter_elements(d, i, u, 0, how),
            data,
            indices,
            updates,
        )
        with np.errstate(invalid="ignore"):
            expected = COMBINE[reduction](data, updates)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("reduction", list(COMBINE))
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_nd(compiled: Run, reduction: str, depth: int) -> None:
    data = RNG.standard_normal((4, 3, 5)).astype("float32")
    indices = RNG.integers(-6, 6, (depth, 2, 3)).astype("int64")
    updates = RNG.standard_normal((2, 3, *data.shape[depth:])).astype("float32")
    result = compiled(lambda d, i, u: topi.scatter_nd(d, i, u, reduction), data, indices, updates)
    expected = data.astype("float64")
    for place in np.ndindex(2, 3):
        given = [int(row[place]) for row in indices]
        own = tuple(i + n if i < 0 else i for i, n in zip(given, data.shape, strict=False))
        if all(0 <= i < n for i, n in zip(own, data.shape, strict=False)):
            expected[own] = COMBINE[reduction](expected[own], updates[place])
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("data", "indices"), [((3, 4), (0, 4)), ((0, 4), (2, 4)), ((1, 1), (1, 1)), ((3, 0), (3, 0))]
)
def test_edge_shapes(compiled: Run, data: tuple[int, ...], indices: tuple[int, ...]) -> None:
    old = RNG.standard_normal(data).astype("float32")
    chosen, new = np.zeros(indices, "int32"), np.ones(indices, "float32")
    result = compiled(topi.scatter_elements, old, chosen, new)
    np.testing.assert_array_equal(result, elements(old, chosen, new, 0, "update"))


def test_bool(compiled: Run) -> None:
    data, new = np.zeros(3, "bool"), np.ones(1, "bool")
    result = compiled(topi.scatter_elements, data, np.array([-1]), new)
    assert result.tolist() == [False, False, True]


def test_interpreted(evaluate: Run) -> None:
    data, new = (RNG.standard_normal((3, 4)).astype("float32") for _ in range(2))
    chosen = RNG.integers(-6, 6, (3, 4)).astype("int32")
    out = topi.scatter_elements(A, I, U, 1, "add")
    result = evaluate(out, [A, I, U], data, chosen, new)
    np.testing.assert_allclose(result, elements(data, chosen, new, 1, "add"), rtol=1e-5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: topi.scatter_elements(A, A, A),
            "scatter_elements: indices A must be integers, they are float32",
        ),
        (
            lambda: topi.scatter_elements(A, I, I),
            "scatter_elements: updates are int32, data is float32; cast one of them",
        ),
        (
            lambda: topi.scatter_elements(A, I, A, 0, "mean"),
            "scatter_elements: unknown reduction 'mean', "
            "expected one of 'update', 'add', 'mul', 'min', 'max'",
        ),
        (
            lambda: topi.scatter_elements(A, te.placeholder((3,), "int32"), A),
            "scatter_elements: indices must have 2 dimensions as data, it has 1",
        ),
        (
            lambda: topi.scatter_elements(A, te.placeholder((3, 2), "int32"), A),
            "scatter_elements: the extents of indices and updates at axis 1 differ: 2 and 4",
        ),
        (
            lambda: topi.scatter_elements(
                A, te.placeholder((2, 9), "int32"), te.placeholder((2, 9))
            ),
            "scatter_elements: indices have extent 9 at axis 1, more than the 4 of data",
        ),
        (
            lambda: topi.scatter_elements(topi.isnan(A), I, topi.isnan(A), 0, "add"),
            "scatter_elements: 'add' needs numbers, compute is bool",
        ),
        (
            lambda: topi.scatter_nd(A, I, A),
            "scatter_nd: 3 indices for a tensor of 2 dimensions",
        ),
        (
            lambda: topi.scatter_nd(A, te.placeholder((1, 2), "int32"), A),
            "scatter_nd: updates must have shape (2, 4), got (3, 4)",
        ),
        (
            lambda: topi.scatter_nd(A, te.placeholder((), "int32"), A),
            "scatter_nd: indices must have at least 1 dimension, it has 0",
        ),
    ],
)
def test_refusals(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        build()
    assert str(error.value) == message
