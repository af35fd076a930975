"""cumsum and cumprod against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.errors import TensorExpressionError

Run = Callable[..., Any]
RNG = np.random.default_rng(5)

SHAPES: list[tuple[tuple[int, ...], int | None]] = [
    ((13,), 0),
    ((3, 7), -1),
    ((11, 5), 1),  # more rows than go side by side
    ((5, 83), 0),  # more neighbours than fill a vector
    ((2, 3, 73), 1),
    ((3, 4, 5), 0),
    ((3, 4, 5), None),
    ((1,), 0),
    ((1, 1), 1),
    ((), None),
    ((0,), 0),
    ((0,), None),
    ((3, 0), 0),
    ((3, 0), 1),
    ((0, 3), 1),
]


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_against_numpy(compiled: Run, name: str, shape: tuple[int, ...], axis: int | None) -> None:
    x = np.asarray(RNG.uniform(0.5, 1.5, shape), "float32")
    result = compiled(lambda a: getattr(topi, name)(a, axis), x)
    np.testing.assert_allclose(result, getattr(np, name)(x.astype("float64"), axis), rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_exclusive(compiled: Run, axis: int | None) -> None:
    x = RNG.integers(1, 4, (3, 5)).astype("int32")
    sums = compiled(lambda a: topi.cumsum(a, axis, exclusive=True), x)
    np.testing.assert_array_equal(sums, np.cumsum(x, axis) - (x if axis is not None else x.ravel()))
    products = compiled(lambda a: topi.cumprod(a, axis, exclusive=True), x)
    divisor = x if axis is not None else x.ravel()
    np.testing.assert_array_equal(products, np.cumprod(x, axis) // divisor)


DTYPES = [
    # dtype, dtype of the result, relative error
    ("float16", "float16", 1e-3),
    (ml_dtypes.bfloat16, ml_dtypes.bfloat16, 8e-3),
    ("float32", "float32", 1e-6),
    ("float64", "float64", 1e-14),
    ("int8", "int32", 0),
    ("uint8", "uint32", 0),
    ("int16", "int32", 0),
    ("int32", "int32", 0),
    ("int64", "int64", 0),
    ("bool", "int32", 0),
]


@pytest.mark.parametrize(("dtype", "kind", "error"), DTYPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_types(compiled: Run, dtype: Any, kind: Any, error: float, axis: int) -> None:
    x = RNG.integers(0, 100, (9, 9)).astype(dtype)
    result = compiled(lambda a: topi.cumsum(a, axis), x)
    assert result.dtype == kind
    expected = np.cumsum(x.astype("float64"), axis)
    np.testing.assert_allclose(result.astype("float64"), expected, rtol=error)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_narrow_floats_are_added_in_float32(compiled: Run, dtype: Any) -> None:
    # In the narrow type the sum stays where adding 1 does not change it any more.
    result = compiled(lambda a: topi.cumsum(a, 0), np.ones(5000, dtype))
    assert float(result[-1]) == pytest.approx(5000, rel=4e-3)


@pytest.mark.parametrize(("dtype", "expected"), [("int8", -56), ("int64", 200), ("float64", 200.0)])
def test_dtype_of_the_result(compiled: Run, dtype: str, expected: float) -> None:
    x = np.full(2, 100, "int8")
    result = compiled(lambda a: topi.cumsum(a, 0, dtype), x)
    assert result.dtype == dtype
    assert result[-1] == expected


def test_special_values(compiled: Run) -> None:
    x = np.array([[-0.0, -0.0, 1, np.inf, -np.inf, 2], [1, np.nan, 2, 3, 4, 5]], "float32")
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(compiled(lambda a: topi.cumsum(a, 1), x), np.cumsum(x, 1))
        np.testing.assert_array_equal(compiled(lambda a: topi.cumprod(a, 1), x), np.cumprod(x, 1))


def test_on_several_threads(compiled: Run) -> None:
    x = RNG.integers(-9, 9, (300, 301)).astype("int32")
    np.testing.assert_array_equal(compiled(lambda a: topi.cumsum(a, 1), x), np.cumsum(x, 1))
    np.testing.assert_array_equal(compiled(lambda a: topi.cumsum(a, 0), x), np.cumsum(x, 0))


def test_interpreted(evaluate: Run) -> None:
    x = RNG.uniform(-2, 2, (3, 9)).astype("float32")
    a = te.placeholder(x.shape, name="A")
    np.testing.assert_allclose(evaluate(topi.cumsum(a, 1), [a], x), np.cumsum(x, 1), rtol=1e-5)


def test_symbolic_extent() -> None:
    n = te.var("n")
    a = te.placeholder((n, 7), name="A")
    mod = tw.build(te.create_prim_func([a, topi.cumsum(a, 0)]))
    x = RNG.uniform(0, 1, (13, 7)).astype("float32")
    out = np.empty_like(x)
    mod(x, out)
    np.testing.assert_allclose(out, np.cumsum(x, 0), rtol=1e-5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda a: topi.cumsum(a, 2),
            "cumsum: axis 2 is out of range for a tensor of 2 dimensions",
        ),
        (
            lambda a: topi.cumprod(a, -3),
            "cumprod: axis -3 is out of range for a tensor of 2 dimensions",
        ),
        (lambda a: topi.cumsum(a, 0, "bool"), "cumsum: dtype 'bool' cannot hold totals of A"),
    ],
)
def test_refusals(build: Callable[[te.Tensor], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        build(te.placeholder((3, 4), name="A"))
    assert str(error.value) == message
