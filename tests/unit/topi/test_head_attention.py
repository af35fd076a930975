"""Attention of several heads on rows of tokens, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.driver import build
from tilewright.errors import TensorExpressionError
from tilewright.target import Target
from tilewright.topi.nn import HeadOptions
from tilewright.tune.fallback import default_schedule

Run = Callable[..., Any]
RNG = np.random.default_rng(31)


def _rows(batch: int, tokens: int, width: int) -> Any:
    return RNG.standard_normal((batch, tokens, width)).astype("float32")


def _expected(arrays: Sequence[Any], options: HeadOptions, bias: Any = 0.0) -> Any:
    def heads(rows: Any, offset: int) -> Any:
        own = rows[..., offset : offset + options.heads * options.depth].astype("float64")
        return own.reshape(*rows.shape[:2], options.heads, options.depth).transpose(0, 2, 1, 3)

    parts = zip(arrays, options.offsets, strict=True)
    q, k, v = (heads(rows, offset) for rows, offset in parts)
    scores = q @ k.transpose(0, 1, 3, 2) * options.factor + bias
    if options.is_causal:
        order = np.arange(scores.shape[-2])[:, None]
        scores = np.where(np.arange(scores.shape[-1])[None] <= order, scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e300))
    total = powers.sum(-1, keepdims=True)
    return (powers / np.where(total == 0, 1, total) @ v).transpose(0, 2, 1, 3)


@pytest.mark.parametrize("is_scheduled", [False, True], ids=["plain", "scheduled"])
@pytest.mark.parametrize(
    ("batch", "queries", "keys", "heads", "depth"),
    [(1, 16, 32, 2, 16), (2, 9, 7, 3, 4), (1, 1, 1, 1, 1), (1, 70, 40, 1, 20), (2, 41, 41, 2, 32)],
)
def test_shapes(
    compiled: Run,
    is_scheduled: bool,
    batch: int,
    queries: int,
    keys: int,
    heads: int,
    depth: int,
) -> None:
    """Whole tiles and ragged ones; more cores than heads."""
    options = HeadOptions(heads, depth)
    shapes = [(batch, count, heads * depth) for count in (queries, keys, keys)]
    arrays = [_rows(*shape) for shape in shapes]
    tensors = [te.placeholder(shape, name=name) for shape, name in zip(shapes, "QKV", strict=True)]
    if is_scheduled:
        result = topi.nn.head_attention(tensors[0], tensors[1], tensors[2], None, options)
        func = te.create_prim_func([*tensors, result])
        made = np.empty((batch, queries, heads, depth), "float32")
        build(default_schedule(func).mod, Target("llvm"))["main"](*arrays, made)
    else:
        made = compiled(lambda q, k, v: topi.nn.head_attention(q, k, v, None, options), *arrays)
    np.testing.assert_allclose(made, _expected(arrays, options), rtol=1e-4, atol=1e-5)


def test_parts_of_one_tensor(compiled: Run) -> None:
    options = HeadOptions(2, 4, (8, 0, 17), is_causal=True, scale=0.7)
    rows = _rows(1, 11, 26)
    made = compiled(lambda x: topi.nn.head_attention(x, x, x, None, options), rows)
    np.testing.assert_allclose(made, _expected([rows] * 3, options), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(9, 7), (1, 9, 7), (2, 1, 9, 7), (1, 3, 1, 7)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_masks(compiled: Run, shape: tuple[int, ...], dtype: str) -> None:
    options = HeadOptions(3, 4)
    arrays = [_rows(2, count, 12) for count in (9, 7, 7)]
    seen = RNG.random(shape) < 0.6
    seen[..., 0] = True
    mask = seen if dtype == "bool" else RNG.standard_normal(shape).astype("float32")
    bias = np.where(seen, 0.0, -np.inf) if dtype == "bool" else mask
    made = compiled(lambda q, k, v, m: topi.nn.head_attention(q, k, v, m, options), *arrays, mask)
    np.testing.assert_allclose(made, _expected(arrays, options, bias), rtol=1e-4, atol=1e-5)


def test_a_query_that_sees_no_key_gets_zeros(compiled: Run) -> None:
    options = HeadOptions(1, 4)
    arrays = [_rows(1, count, 4) for count in (3, 5, 5)]
    seen = np.ones((3, 5), bool)
    seen[1] = False
    made = compiled(lambda q, k, v, m: topi.nn.head_attention(q, k, v, m, options), *arrays, seen)
    assert (made[0, 1] == 0).all()
    bias = np.where(seen, 0.0, -np.inf)
    np.testing.assert_allclose(made, _expected(arrays, options, bias), rtol=1e-4, atol=1e-5)


X = te.placeholder((2, 5, 24), name="X")


@pytest.mark.parametrize(
    ("others", "options", "message"),
    [
        (
            (X, X), HeadOptions(3, 8, (0, 8, 0)),
            "head_attention: 3 heads of 8 features from 8 on do not fit into the 24 features of X",
        ),
        (
            (X, te.placeholder((2, 6, 24), name="V")), HeadOptions(3, 8),
            "head_attention: there must be a value for each key",
        ),
        (
            (te.placeholder((1, 5, 24), name="K"), X), HeadOptions(3, 8),
            "head_attention: K must have the type and the batch of X",
        ),
    ],
)  # fmt: skip
def test_operands_that_do_not_fit(
    others: tuple[te.Tensor, te.Tensor], options: HeadOptions, message: str
) -> None:
    with pytest.raises(TensorExpressionError) as caught:
        topi.nn.head_attention(X, others[0], others[1], None, options)
    assert str(caught.value) == message


def test_a_mask_that_does_not_fit() -> None:
    mask = te.placeholder((1, 2, 3, 5, 5), name="M")
    with pytest.raises(TensorExpressionError) as caught:
        topi.nn.head_attention(X, X, X, mask, HeadOptions(3, 8))
    assert str(caught.value) == "head_attention: attn_mask M cannot be stretched to the scores"
