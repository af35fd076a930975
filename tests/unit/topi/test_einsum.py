"""einsum against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import TensorExpressionError

Run = Callable[..., Any]
Shapes = list[tuple[int, ...]]
RNG = np.random.default_rng(11)

CASES: list[tuple[str, Shapes]] = [
    ("ij,jk->ik", [(3, 4), (4, 5)]),
    ("ij,jk", [(3, 4), (4, 5)]),  # the output has i and k
    ("ba,cb", [(3, 4), (5, 3)]),  # and here a and c, in this order
    ("ij->ji", [(3, 4)]),
    ("ji", [(3, 4)]),
    ("ij->", [(3, 4)]),
    ("ii->i", [(4, 4)]),
    ("ii", [(4, 4)]),
    ("iij,jk->ik", [(3, 3, 2), (2, 5)]),
    ("i,j->ij", [(3,), (4,)]),
    (" i j , j k -> i k ", [(3, 4), (4, 5)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
    ("...ij,...jk", [(2, 1, 3, 4), (7, 4, 5)]),
    ("i...->...", [(3, 4)]),
    ("...", [(3, 4)]),
    ("i...,i->...i", [(3, 4), (3,)]),
    ("ij,ij->ij", [(3, 1), (3, 4)]),  # an extent of 1 is stretched
    ("i,i->", [(1,), (4,)]),
    (",->", [(), ()]),
    (",ij", [(), (3, 4)]),
    ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 6)]),
    ("a,a,a,a->", [(3,)] * 4),
    ("ij,kl,jk,lm->im", [(2, 3), (4, 5), (3, 4), (5, 2)]),
    ("ij,jk->ik", [(1, 1), (1, 1)]),
    ("ij,jk->ik", [(0, 4), (4, 5)]),
    ("ij,jk->ik", [(7, 13), (13, 11)]),
]


@pytest.mark.parametrize(("subscripts", "shapes"), CASES, ids=[row[0] for row in CASES])
def test_against_numpy(compiled: Run, subscripts: str, shapes: Shapes) -> None:
    arrays = [np.asarray(RNG.uniform(-2, 2, shape), "float32") for shape in shapes]
    result = compiled(lambda *tensors: topi.einsum(subscripts, *tensors), *arrays)
    expected = np.einsum(subscripts, *(array.astype("float64") for array in arrays))
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "kind", "error"),
    [
        ("float16", "float16", 1e-3),
        (ml_dtypes.bfloat16, ml_dtypes.bfloat16, 8e-3),
        ("float32", "float32", 1e-5),
        ("float64", "float64", 1e-12),
        ("int8", "int32", 0),
        ("uint8", "uint32", 0),
        ("int32", "int32", 0),
        ("int64", "int64", 0),
        ("bool", "int32", 0),
    ],
)
@pytest.mark.parametrize("subscripts", ["ij,jk,kl->il", "ij,jk,kl->ijkl"])
def test_types(compiled: Run, dtype: Any, kind: Any, error: float, subscripts: str) -> None:
    shapes = [(3, 5), (5, 4), (4, 2)]
    arrays = [RNG.integers(0, 10, shape).astype(dtype) for shape in shapes]
    result = compiled(lambda *tensors: topi.einsum(subscripts, *tensors), *arrays)
    assert result.dtype == kind
    expected = np.einsum(subscripts, *(array.astype("float64") for array in arrays))
    np.testing.assert_allclose(result.astype("float64"), expected, rtol=error)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_narrow_floats_are_added_in_float32(compiled: Run, dtype: Any) -> None:
    ones = np.ones(5000, dtype)
    result = compiled(lambda a, b: topi.einsum("i,i->", a, b), ones, ones)
    assert float(result) == pytest.approx(5000, rel=4e-3)


def test_floats_of_32_bits_are_not_converted() -> None:
    a, b = (te.placeholder((3, 3), name=name) for name in "AB")
    assert "Cast" not in str(te.create_prim_func([a, b, topi.einsum("ij,jk", a, b)]))


def test_special_values(compiled: Run) -> None:
    x = np.array([[np.nan, 1], [np.inf, -np.inf], [-0.0, -0.0]], "float32")
    result = compiled(lambda a: topi.einsum("ij->i", a), x)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(result, x.sum(1))


def test_the_cheapest_pair_comes_first() -> None:
    # The last two first: 10 * 1000 * 1, then 1000 * 10 * 1 multiplications.
    a, b, c = (
        te.placeholder(s, name=n)
        for s, n in (((1000, 10), "A"), ((10, 1000), "B"), ((1000, 1), "C"))
    )
    result = topi.einsum("ij,jk,kl->il", a, b, c)
    [product] = [t for t in result.op.input_tensors if t is not a]
    assert set(product.op.input_tensors) == {b, c}


def test_one_tensor_several_times(compiled: Run) -> None:
    x = RNG.uniform(-1, 1, 5).astype("float32")
    result = compiled(lambda a: topi.einsum("i,i,i->", a, a, a), x)
    np.testing.assert_allclose(result, (x.astype("float64") ** 3).sum(), rtol=1e-5)


def test_interpreted(evaluate: Run) -> None:
    x = RNG.uniform(-1, 1, (3, 4)).astype("float32")
    a = te.placeholder(x.shape, name="A")
    np.testing.assert_allclose(evaluate(topi.einsum("ij,kj", a, a), [a], x), x @ x.T, rtol=1e-5)


A = te.placeholder((3, 4), name="A")
B = te.placeholder((5, 6), name="B")


@pytest.mark.parametrize(
    ("subscripts", "operands", "message"),
    [
        ("ij,jk", [A], "einsum: 'ij,jk' describes 2 operands, got 1"),
        ("ij,jk", [A, B], "einsum: the label 'j' of 'ij,jk' has extents 4 and 5"),
        ("ii", [A], "einsum: the label 'i' of 'ii' has extents 3 and 4"),
        ("ijk", [A], "einsum: 'ijk' in 'ijk' names 3 axes, A has 2"),
        ("i", [A], "einsum: 'i' in 'i' names 1 axes, A has 2"),
        ("i1", [A], "einsum: 'i1' in 'i1' must be letters and at most one '...'"),
        ("...i...", [A], "einsum: '...i...' in '...i...' must be letters and at most one '...'"),
        ("ij->ik", [A], "einsum: the output label 'k' of 'ij->ik' is on no operand"),
        ("ij->ii", [A], "einsum: the output of 'ij->ii' has the label 'i' twice"),
    ],
)
def test_refusals(subscripts: str, operands: list[te.Tensor], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        topi.einsum(subscripts, *operands)
    assert str(error.value) == message
