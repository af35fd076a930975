"""Attention in parts, for targets that run it as products of matrices with a softmax between.

Queries, keys and values stay where a linear layer left them: `(batch, tokens, parts, heads, width)`
is the result of one layer that makes all of them, `(batch, tokens, heads, width)` of one each.
"""

from __future__ import annotations

import math

from tilewright import ir, te, topi
from tilewright.graph.operator import operator
from tilewright.te import Tensor
from tilewright.topi.axes import constant_extent


def _heads(tensor: Tensor, part: int, name: str) -> Tensor:
    """A part as `(batch, heads, tokens, width)`."""
    batch, tokens, heads, width = (tensor.shape[axis] for axis in (0, 1, -2, -1))

    def element(b: ir.Var, h: ir.Var, t: ir.Var, d: ir.Var) -> ir.ExprLike:
        return tensor(b, t, part, h, d) if tensor.ndim == 5 else tensor(b, t, h, d)

    return te.compute((batch, heads, tokens, width), element, name)


@operator("nn.attention_scores")
def attention_scores(
    query: Tensor,
    key: Tensor,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    parts: tuple[int, int] = (0, 1),
) -> Tensor:
    """`query @ key.T * scale` in the type of sums, `(batch, heads, queries, keys)`."""
    q, k = _heads(query, parts[0], "q"), _heads(key, parts[1], "k")
    wide = query.dtype.accumulator
    depth = te.reduce_axis((0, q.shape[-1]), "d")
    factor = 1 / math.sqrt(constant_extent(q.shape[-1], "attention")) if scale is None else scale

    def product(b: ir.Var, h: ir.Var, i: ir.Var, j: ir.Var) -> ir.ExprLike:
        return te.sum(q(b, h, i, depth).astype(wide) * k(b, h, j, depth).astype(wide), axis=depth)

    shape = (*q.shape[:3], k.shape[2])
    products = te.compute(shape, product, "T_scores", "batch_matmul")

    def scaled(b: ir.Var, h: ir.Var, i: ir.Var, j: ir.Var) -> ir.ExprLike:
        score = products(b, h, i, j) * ir.const(factor, wide)
        return ir.Select(j <= i, score, ir.const(-math.inf, wide)) if is_causal else score

    return te.compute(shape, scaled, "T_scaled_scores")


@operator("nn.attention_weights")
def attention_weights(scores: Tensor, dtype: str) -> Tensor:
    """The softmax of scores, rounded once."""
    return topi.cast(topi.nn.softmax(scores, axis=-1), dtype)


@operator("nn.attention_values")
def attention_values(weights: Tensor, value: Tensor, *, part: int = 2) -> Tensor:
    """`weights @ value` as `(batch, tokens, heads, width)`."""
    v, wide = _heads(value, part, "v"), value.dtype.accumulator
    batch, heads, queries, keys = weights.shape
    s = te.reduce_axis((0, keys), "s")

    def product(b: ir.Var, h: ir.Var, i: ir.Var, d: ir.Var) -> ir.ExprLike:
        return te.sum(weights(b, h, i, s).astype(wide) * v(b, h, s, d).astype(wide), axis=s)

    mixed = te.compute((batch, heads, queries, v.shape[-1]), product, "T_mixed", "batch_matmul")

    def turned(b: ir.Var, t: ir.Var, h: ir.Var, d: ir.Var) -> ir.ExprLike:
        return mixed(b, h, t, d).astype(value.dtype)

    return te.compute((batch, queries, heads, v.shape[-1]), turned, "T_mixed_turned")
