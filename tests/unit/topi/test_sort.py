"""sort, argsort and topk against NumPy."""

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
RNG = np.random.default_rng(7)
DTYPES = [
    "float16",
    ml_dtypes.bfloat16,
    "float32",
    "float64",
    "int8",
    "uint8",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool",
]
FLOATS: list[Any] = DTYPES[:4]
SHAPES = [
    ((40,), 0),
    ((3, 17), -1),
    ((33, 3), 0),
    ((2, 16, 3), 1),
    ((2, 101), 1),
    ((1,), 0),
    ((4, 1), 1),
    ((0,), 0),
    ((2, 0), 1),
    ((0, 4), 1),
]


def order_of(x: Any, axis: int, ascending: bool) -> Any:
    """NumPy's stable order; for a descending one NaN comes first and ties stay as they are."""
    wide = x.astype("float64") if x.dtype.kind not in "iu" else x
    if ascending:
        return np.argsort(wide, axis, kind="stable")
    backwards = np.argsort(np.flip(wide, axis), axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - backwards, axis)


def with_ties(shape: tuple[int, ...], dtype: Any) -> Any:
    return (RNG.standard_normal(shape) * 4 + 4).clip(0, 9).astype(dtype)


def same(a: Any, b: Any) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == np.ascontiguousarray(b).tobytes()  # NaN and the sign of zero, too


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("ascending", [True, False])
def test_shapes(compiled: Run, shape: tuple[int, ...], axis: int, ascending: bool) -> None:
    x = with_ties(shape, "float32")
    order = order_of(x, axis, ascending)
    values, positions = compiled(
        lambda a: [topi.sort(a, axis, ascending), topi.argsort(a, None, axis, ascending)], x
    )
    same(positions, order.astype("int64"))
    same(values, np.take_along_axis(x, order, axis))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ascending", [True, False])
def test_types(compiled: Run, dtype: Any, ascending: bool) -> None:
    x = with_ties((2, 37), dtype)
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        x[0, 3], x[0, 9], x[1, 5] = limits.max, limits.min, limits.max
    order = order_of(x, 1, ascending)
    values, positions = compiled(lambda a: topi.topk(a, 0, 1, "both", ascending), x)
    same(positions, order.astype("int64"))
    same(values, np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("ascending", [True, False])
def test_special_values(compiled: Run, dtype: Any, ascending: bool) -> None:
    special = [np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -np.nan, -0.0, -1.0, np.nan, 0.0]
    x = np.array(special * 2, dtype)
    order = order_of(x, 0, ascending)
    values, positions = compiled(lambda a: topi.topk(a, 20, 0, "both", ascending), x)
    same(values, x[order][:20])
    same(positions, order[:20].astype("int64"))


@pytest.mark.parametrize("count", [15, 16, 31, 32, 64, 65, 1000])
def test_lengths_around_whole_runs(compiled: Run, count: int) -> None:
    x = RNG.integers(0, count // 2, count).astype("int32")
    same(compiled(lambda a: topi.argsort(a), x), order_of(x, 0, True).astype("int64"))


@pytest.mark.parametrize("pattern", ["random", "rising", "falling", "equal"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_of_many(compiled: Run, pattern: str, dtype: str) -> None:
    made = {
        "random": RNG.standard_normal(2000),
        "rising": np.arange(2000),
        "falling": -np.arange(2000),
        "equal": np.zeros(2000),
    }
    x = np.stack([made[pattern], made[pattern][::-1]]).astype(dtype)
    positions = compiled(lambda a: topi.topk(a, 3, ret_type="indices", dtype="int32"), x)
    same(positions, order_of(x, 1, False)[:, :3].astype("int32"))


def test_few_of_many_with_nan(compiled: Run) -> None:
    x = RNG.standard_normal((1, 500))
    x[0, ::100] = np.nan
    for ascending in (True, False):
        positions = compiled(lambda a, up=ascending: topi.topk(a, 4, 1, "indices", up), x)
        same(positions, order_of(x, 1, ascending)[:, :4].astype("int64"))
    x[...] = np.nan
    assert compiled(lambda a: topi.topk(a, 4, 1, "indices", True), x).tolist() == [[0, 1, 2, 3]]


def test_all_of_them_and_the_largest_by_default(compiled: Run) -> None:
    x = with_ties((2, 9), "float32")
    values, positions = compiled(topi.topk, x)
    np.testing.assert_array_equal(values[:, 0], x.max(1))
    np.testing.assert_array_equal(positions[:, 0], x.argmax(1))
    everything = compiled(lambda a: topi.topk(a, 0, ret_type="values"), x)
    np.testing.assert_array_equal(everything, -np.sort(-x, 1))


def test_valid_count(compiled: Run) -> None:
    x = np.array([[3, 1, 2, 0], [3, 1, 2, 0], [3, 1, 2, 0]], "float32")
    counts = np.array([3, -5, 99], "int32")
    result = compiled(lambda a, n: topi.argsort(a, n, 1), x, counts)
    assert result.tolist() == [[1, 2, 0, 3], [0, 1, 2, 3], [3, 1, 2, 0]]


def test_on_several_threads(compiled: Run) -> None:
    x = RNG.integers(0, 999, (200, 400)).astype("int16")
    np.testing.assert_array_equal(compiled(lambda a: topi.sort(a, 1), x), np.sort(x, 1))


def test_interpreted(evaluate: Run) -> None:
    x = with_ties((2, 35), "float32")
    a = te.placeholder(x.shape, name="A")
    np.testing.assert_array_equal(evaluate(topi.sort(a), [a], x), np.sort(x))
    few = evaluate(topi.topk(a, 2, ret_type="values"), [a], x)
    np.testing.assert_array_equal(few, -np.sort(-x)[:, :2])


def test_symbolic_extent() -> None:
    n = te.var("n")
    a = te.placeholder((2, n), name="A")
    mod = tw.build(te.create_prim_func([a, topi.argsort(a)]))
    x = with_ties((2, 77), "float32")
    out = np.empty((2, 77), "int64")
    mod(x, out)
    np.testing.assert_array_equal(out, order_of(x, 1, True))


A = te.placeholder((3, 4), name="A")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: topi.sort(A, 2), "sort: axis 2 is out of range for a tensor of 2 dimensions"),
        (
            lambda: topi.sort(te.placeholder((), name="A")),
            "sort: axis -1 is out of range for a tensor of 0 dimensions",
        ),
        (
            lambda: topi.topk(A, 5),
            "topk: k=5 is more than the 4 elements of A along axis 1",
        ),
        (
            lambda: topi.topk(te.placeholder((2, te.var("n")), name="A"), 5),
            "topk: extent `n` must be a constant",
        ),
        (
            lambda: topi.topk(A, 2, ret_type="all"),
            "topk: unknown ret_type 'all', expected one of 'both', 'values', 'indices'",
        ),
        (
            lambda: topi.argsort(A, dtype="bool"),
            "argsort: dtype 'bool' cannot hold positions",
        ),
        (
            lambda: topi.argsort(te.placeholder((300,), name="A"), dtype="int8"),
            "argsort: dtype 'int8' cannot hold the positions of 300 elements; pass dtype='int64'",
        ),
        (
            lambda: topi.argsort(te.placeholder((2**24 + 2,), name="A"), dtype="float32"),
            "argsort: dtype 'float32' cannot hold the positions of 16777218 elements; "
            "pass dtype='int64'",
        ),
        (
            lambda: topi.argsort(A, te.placeholder((4,), "int32", "N")),
            "argsort: valid_count must be integers of shape (3), one for each row of A; "
            "got int32 of shape (4)",
        ),
    ],
)
def test_refusals(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        build()
    assert str(error.value) == message
