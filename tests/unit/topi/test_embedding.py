"""embedding against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import TensorExpressionError

Run = Callable[..., Any]
RNG = np.random.default_rng(19)


@pytest.mark.parametrize("shape", [(7,), (2, 3), (1,), (), (0,)])
@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16, "float32", "float64", "int8"])
def test_against_numpy(compiled: Run, shape: tuple[int, ...], dtype: Any) -> None:
    table = RNG.integers(-50, 50, (11, 5)).astype(dtype)
    indices = np.asarray(RNG.integers(0, 11, shape), "int32")
    np.testing.assert_array_equal(compiled(topi.nn.embedding, indices, table), table[indices])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_indices_never_lead_outside(compiled: Run, dtype: str) -> None:
    limits = np.iinfo(dtype)
    given = [0, 210, limits.max, limits.min, limits.max // 2, -1 if limits.min else 1]
    indices = np.array([i for i in given if i <= limits.max], dtype)
    table = RNG.standard_normal((211, 3)).astype("float32")
    rows = [min(max(int(i) + (211 if i < 0 else 0), 0), 210) for i in indices]
    np.testing.assert_array_equal(compiled(topi.nn.embedding, indices, table), table[rows])


def test_no_index_needs_no_row(compiled: Run) -> None:
    result = compiled(topi.nn.embedding, np.zeros((2, 0), "int32"), np.zeros((0, 3), "float32"))
    assert result.shape == (2, 0, 3)


def test_special_values_are_copied(compiled: Run) -> None:
    table = np.array([[np.nan, -0.0], [np.inf, -np.inf]], "float32")
    result = compiled(topi.nn.embedding, np.array([1, 0]), table)
    assert result.tobytes() == table[[1, 0]].tobytes()


@pytest.mark.parametrize(
    ("indices", "table", "message"),
    [
        (("float32", (3,)), (4, 5), "embedding: indices I must be integers, they are float32"),
        (("int32", (3,)), (4,), "embedding: tensor W must have 2 dimensions, it has 1"),
        (
            ("int32", (3,)),
            (0, 5),
            "embedding: cannot choose from an axis without elements",
        ),
    ],
)
def test_refusals(indices: tuple[str, Any], table: tuple[int, ...], message: str) -> None:
    dtype, shape = indices
    with pytest.raises(TensorExpressionError) as error:
        topi.nn.embedding(te.placeholder(shape, dtype, "I"), te.placeholder(table, name="W"))
    assert str(error.value) == message
