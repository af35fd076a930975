"""Scaled dot-product attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, IntImm, PrimExpr, Select, Var, const, convert
from tilewright.ir.intrinsics import exp, rsqrt
from tilewright.te import Tensor
from tilewright.topi.axes import INJECTIVE, check_extents, compute_ax, shape_text
from tilewright.topi.broadcast import can_stretch, element_at


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """`softmax(query @ key.T * scale + attn_mask) @ value`.

    `query` is `(..., L, E)`, `key` `(..., S, E)` and `value` `(..., S, V)`, usually with batch and
    heads in front; the result is `(..., L, V)`. `attn_mask` is stretched to `(..., L, S)`: a bool
    mask says which keys a query sees, numbers are added to the products. With `is_causal` query `i`
    sees the keys up to `i` only. A query that sees no key gets zeros. `scale` is `1 / sqrt(E)` by
    default. All of it is computed in float32 at least and rounded once.
    """
    layer = _Attention(query, key, value, attn_mask)
    scores = layer.scores(is_causal, scale)
    return layer.weighted(scores)


class _Attention:
    def __init__(self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None) -> None:
        _check_operands(query, key, value)
        self._query, self._key, self._value, self._mask = query, key, value, attn_mask
        self._wide = query.dtype.accumulator
        self._rows = [*query.shape[:-1]]
        self._keys = key.shape[-2]
        if attn_mask is not None:
            _check_mask(attn_mask, [*self._rows, self._keys])

    def scores(self, is_causal: bool, scale: float | None) -> Tensor:
        """How well each key fits each query."""
        depth = te.reduce_axis((0, self._query.shape[-1]), name="k")

        def product(*i: Var) -> ExprLike:
            x = self._query(*i[:-1], depth).astype(self._wide)
            y = self._key(*i[:-2], i[-1], depth).astype(self._wide)
            return te.sum(x * y, axis=depth)

        shape = [*self._rows, self._keys]
        products = compute_ax(shape, product, "T_attention_scores", "batch_matmul")
        factor = self._factor(scale)

        def masked(*i: Var) -> PrimExpr:
            score = self._with_mask(products(*i) * factor, shape, i)
            if is_causal:
                score = Select(i[-1] <= i[-2], score, self._nothing())
            return score

        return compute_ax(shape, masked, "T_attention_masked", INJECTIVE)

    def _factor(self, scale: float | None) -> PrimExpr:
        if scale is not None:
            return const(float(scale), self._wide)
        depth = self._query.shape[-1]
        if isinstance(depth, IntImm):
            return const(1 / math.sqrt(depth.value) if depth.value else 1.0, self._wide)
        return rsqrt(depth.astype(self._wide))

    def _nothing(self) -> PrimExpr:
        return const(-math.inf, self._wide)

    def _with_mask(self, score: PrimExpr, shape: Sequence[PrimExpr], i: Sequence[Var]) -> PrimExpr:
        if self._mask is None:
            return score
        own = convert(element_at(self._mask, shape, i))
        if own.dtype.is_bool:
            return Select(own, score, self._nothing())
        return score + own.astype(self._wide)

    def weighted(self, scores: Tensor) -> Tensor:
        """The values, weighted by the softmax of the scores."""
        powers = self._powers(scores)
        k = te.reduce_axis((0, self._keys), name="k")
        totals = compute_ax(
            self._rows, lambda *i: te.sum(powers(*i, k), axis=k), "T_attention_total", INJECTIVE
        )
        s = te.reduce_axis((0, self._keys), name="k")
        shape = [*self._rows, self._value.shape[-1]]

        def product(*i: Var) -> ExprLike:
            own = self._value(*i[:-2], s, i[-1]).astype(self._wide)
            return te.sum(powers(*i[:-1], s) * own, axis=s)

        sums = compute_ax(shape, product, "T_attention_sum", "batch_matmul")
        zero = const(0.0, self._wide)

        def divided(*i: Var) -> PrimExpr:
            total = totals(*i[:-1])
            quotient = Select(total.equal(zero), zero, sums(*i) / total)
            return quotient.astype(self._query.dtype)

        return compute_ax(shape, divided, "T_attention", INJECTIVE)

    def _powers(self, scores: Tensor) -> Tensor:
        """`exp(score - largest score of the query)`."""
        k = te.reduce_axis((0, self._keys), name="k")
        largest = compute_ax(
            self._rows, lambda *i: te.max(scores(*i, k), axis=k), "T_attention_max", INJECTIVE
        )
        # te.max starts from a finite number, so a query that sees no key gets zeros, not NaN.
        return compute_ax(
            scores.shape,
            lambda *i: exp(scores(*i) - largest(*i[:-1])),
            "T_attention_exp",
            INJECTIVE,
        )


def _check_operands(query: Tensor, key: Tensor, value: Tensor) -> None:
    for tensor in (query, key, value):
        if tensor.ndim < 2 or tensor.ndim != query.ndim:
            raise TensorExpressionError(
                f"attention: query, key and value must have the same number of dimensions, at "
                f"least 2; they have {query.ndim}, {key.ndim} and {value.ndim}"
            )
        if tensor.dtype is not query.dtype or not tensor.dtype.is_float:
            raise TensorExpressionError(
                f"attention: query, key and value must be of one float type, they are "
                f"{query.dtype!s}, {key.dtype!s} and {value.dtype!s}"
            )
    for d in range(query.ndim - 2):
        for other in (key, value):
            described = f"the extents of {query.name} and {other.name} at axis {d}"
            check_extents(query.shape[d], other.shape[d], "attention", described)
    check_extents(query.shape[-1], key.shape[-1], "attention", "the last extents of query and key")
    check_extents(key.shape[-2], value.shape[-2], "attention", "the numbers of keys and values")


def _check_mask(mask: Tensor, shape: Sequence[PrimExpr]) -> None:
    if not can_stretch(mask, shape, "attention"):
        raise TensorExpressionError(
            f"attention: attn_mask {mask.name} cannot be stretched to shape {shape_text(shape)}"
        )
    if not (mask.dtype.is_bool or mask.dtype.is_float):
        raise TensorExpressionError(
            f"attention: attn_mask {mask.name} must be bool or a float type, it is {mask.dtype!s}"
        )
