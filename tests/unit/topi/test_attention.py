"""attention against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import TensorExpressionError

Run = Callable[..., Any]
RNG = np.random.default_rng(23)
Q = te.placeholder((2, 5, 8), name="Q")
K = te.placeholder((2, 7, 8), name="K")
V = te.placeholder((2, 7, 4), name="V")


def expected_of(arrays: Any, bias: Any = 0.0, scale: float | None = None) -> Any:
    q, k, v = (x.astype("float64") for x in arrays)
    factor = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    scores = q @ np.swapaxes(k, -1, -2) * factor + bias
    largest = scores.max(-1, keepdims=True, initial=-1e300)
    powers = np.exp(scores - largest)
    total = powers.sum(-1, keepdims=True)
    return (powers / np.where(total == 0, 1, total)) @ v


def operands(lead: tuple[int, ...] = (2, 3), dtype: Any = "float32") -> list[Any]:
    shapes = [(*lead, 5, 8), (*lead, 7, 8), (*lead, 7, 4)]
    return [RNG.standard_normal(shape).astype(dtype) for shape in shapes]


CAUSAL = np.where(np.arange(7)[None] <= np.arange(5)[:, None], 0.0, -np.inf)


@pytest.mark.parametrize("lead", [(), (1,), (2, 3), (2, 1, 3), (0, 2)])
def test_batches(compiled: Run, lead: tuple[int, ...]) -> None:
    arrays = operands(lead)
    result = compiled(topi.nn.attention, *arrays)
    np.testing.assert_allclose(result, expected_of(arrays), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("queries", "keys", "depth", "width"),
    [(1, 1, 1, 1), (1, 13, 4, 3), (13, 1, 4, 3), (0, 3, 4, 5)],
)
def test_edge_shapes(compiled: Run, queries: int, keys: int, depth: int, width: int) -> None:
    shapes = [(queries, depth), (keys, depth), (keys, width)]
    arrays = [RNG.standard_normal(shape).astype("float32") for shape in shapes]
    result = compiled(topi.nn.attention, *arrays)
    np.testing.assert_allclose(result, expected_of(arrays), rtol=1e-4, atol=1e-5)


def test_causal_and_scale(compiled: Run) -> None:
    arrays = operands()
    result = compiled(lambda q, k, v: topi.nn.attention(q, k, v, None, True, 0.3), *arrays)
    expected = expected_of(arrays, CAUSAL, 0.3)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(5, 7), (1, 7), (3, 5, 7), (2, 1, 5, 1), (2, 3, 5, 7)])
@pytest.mark.parametrize("causal", [False, True])
def test_masks(compiled: Run, shape: tuple[int, ...], causal: bool) -> None:
    arrays = operands()
    bias = RNG.standard_normal(shape).astype("float32")
    allowed = CAUSAL if causal else np.zeros((5, 7))
    added, chosen = compiled(
        lambda q, k, v, b, m: [
            topi.nn.attention(q, k, v, b, causal),
            topi.nn.attention(q, k, v, m, causal),
        ],
        *arrays,
        bias,
        bias > 0,
    )
    np.testing.assert_allclose(added, expected_of(arrays, allowed + bias), rtol=1e-4, atol=1e-5)
    hidden = np.where(bias > 0, 0.0, -np.inf)
    np.testing.assert_allclose(chosen, expected_of(arrays, allowed + hidden), rtol=1e-4, atol=1e-5)


def test_a_query_that_sees_no_key_gets_zeros(compiled: Run) -> None:
    arrays = operands(())
    seen = np.ones((5, 7), "bool")
    seen[2] = False
    result = compiled(topi.nn.attention, *arrays, seen)
    assert (result[2] == 0).all()
    bias = np.where(seen, 0, -np.inf).astype("float32")
    np.testing.assert_array_equal(compiled(topi.nn.attention, *arrays, bias), result)


@pytest.mark.parametrize(
    ("dtype", "error"),
    [("float16", 2e-3), (ml_dtypes.bfloat16, 1e-2), ("float32", 1e-5), ("float64", 1e-13)],
)
def test_types(compiled: Run, dtype: Any, error: float) -> None:
    arrays = operands((2,), dtype)
    result = compiled(topi.nn.attention, *arrays)
    assert result.dtype == arrays[0].dtype
    expected = expected_of(arrays)
    np.testing.assert_allclose(result.astype("float64"), expected, rtol=error, atol=error)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_narrow_floats_are_added_in_float32(compiled: Run, dtype: Any) -> None:
    query, key = np.zeros((1, 2), dtype), np.zeros((5000, 2), dtype)
    result = compiled(topi.nn.attention, query, key, np.ones((5000, 1), dtype))
    assert float(result[0, 0]) == pytest.approx(1, rel=1e-3)


def test_large_scores_do_not_overflow(compiled: Run) -> None:
    arrays = operands(())
    arrays[0] = arrays[0] * np.float32(1e4)
    result = compiled(topi.nn.attention, *arrays)
    np.testing.assert_allclose(result, expected_of(arrays), rtol=1e-3, atol=1e-3)


def test_nan_stays_in_its_row(compiled: Run) -> None:
    arrays = operands(())
    arrays[0][1, 0] = np.nan
    result = compiled(topi.nn.attention, *arrays)
    np.testing.assert_array_equal(np.isnan(result).all(1), np.arange(5) == 1)
    assert not np.isnan(result[0]).any()


def test_floats_of_32_bits_are_not_converted() -> None:
    assert "Cast" not in str(te.create_prim_func([Q, K, V, topi.nn.attention(Q, K, V)]))


def test_interpreted(evaluate: Run) -> None:
    arrays = operands((2,))
    result = evaluate(topi.nn.attention(Q, K, V, None, True), [Q, K, V], *arrays)
    np.testing.assert_allclose(result, expected_of(arrays, CAUSAL), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: topi.nn.attention(Q, K, te.placeholder((7, 4), name="V")),
            "attention: query, key and value must have the same number of dimensions, "
            "at least 2; they have 3, 3 and 2",
        ),
        (
            lambda: topi.nn.attention(Q, K, topi.cast(V, "float16")),
            "attention: query, key and value must be of one float type, "
            "they are float32, float32 and float16",
        ),
        (
            lambda: topi.nn.attention(Q, V, V),
            "attention: the last extents of query and key differ: 8 and 4",
        ),
        (
            lambda: topi.nn.attention(Q, K, Q),
            "attention: the numbers of keys and values differ: 7 and 5",
        ),
        (
            lambda: topi.nn.attention(Q, te.placeholder((3, 7, 8), name="K"), V),
            "attention: the extents of Q and K at axis 0 differ: 2 and 3",
        ),
        (
            lambda: topi.nn.attention(Q, K, V, te.placeholder((3, 5, 7), name="M")),
            "attention: shapes (3, 5, 7) and (2, 5, 7) do not match: extent 3 against 2",
        ),
        (
            lambda: topi.nn.attention(Q, K, V, te.placeholder((9, 2, 5, 7), name="M")),
            "attention: attn_mask M cannot be stretched to shape (2, 5, 7)",
        ),
        (
            lambda: topi.nn.attention(Q, K, V, te.placeholder((5, 7), "int32", "M")),
            "attention: attn_mask M must be bool or a float type, it is int32",
        ),
    ],
)
def test_refusals(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TensorExpressionError) as error:
        build()
    assert str(error.value) == message
