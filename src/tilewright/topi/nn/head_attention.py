"""Attention of several heads, on tensors whose rows are tokens as linear layers leave them.

Heads stand side by side in a row, so nothing has to be transposed before or after. The stages are
cut into blocks of queries, of one extent: what belongs to a block stays in the cache of one core,
from the scores to the result. Queries and keys are filled up to whole tiles of vector registers;
what is too much is never written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, PrimExpr, Select, Var, const, convert, minimum
from tilewright.ir.annotation_keys import HEAD_ATTENTION, INLINE_RULE
from tilewright.ir.intrinsics import exp
from tilewright.te import Tensor
from tilewright.topi.axes import INJECTIVE, check_float, check_ndim, constant_extent, same_extent
from tilewright.topi.broadcast import can_stretch, element_at

TILE_ROWS, TILE_KEYS = 8, 32
BLOCK_TILES = (4, 5, 6, 7, 8)  # of rows in a block: scores of a block fit into the cache


@dataclass(frozen=True)
class HeadOptions:
    """Where heads lie in a row, and what is done to their scores."""

    heads: int
    depth: int
    offsets: tuple[int, int, int] = (0, 0, 0)  # of the first head in query, key and value
    is_causal: bool = False
    scale: float | None = None

    @property
    def factor(self) -> float:
        """Of all scores."""
        return 1 / math.sqrt(self.depth) if self.scale is None else self.scale


def head_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, options: HeadOptions
) -> Tensor:
    """`softmax(query @ key.T * scale + attn_mask) @ value` for each head.

    Tensors are `(batch, tokens, features)`. Of a row, head `h` takes `depth` features from
    `offset + h * depth` on; the three may be one tensor with offsets of their own. The result is
    `(batch, tokens, heads, depth)`. `attn_mask` is stretched to `(batch, heads, queries, keys)`
    and, like `is_causal`, means what it means to `attention`.
    """
    _check(query, key, value, options)
    return _HeadAttention(query, key, value, attn_mask, options).result()


class _HeadAttention:
    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        options: HeadOptions,
    ) -> None:
        self._query, self._key, self._value, self._mask = query, key, value, mask
        self._options = options
        self._wide = query.dtype.accumulator
        self._queries = constant_extent(query.shape[1], "head_attention")
        self._keys = constant_extent(key.shape[1], "head_attention")
        self._rows, self._blocks = _blocks_of(self._queries)
        self._padded = -(-self._keys // TILE_KEYS) * TILE_KEYS
        if mask is not None and not can_stretch(mask, self._scores_shape, "head_attention"):
            raise TensorExpressionError(
                f"head_attention: attn_mask {mask.name} cannot be stretched to the scores"
            )

    @property
    def _outer(self) -> list[PrimExpr]:
        return [self._query.shape[0], const(self._options.heads)]

    @property
    def _scores_shape(self) -> list[PrimExpr]:
        return [*self._outer, const(self._queries), const(self._keys)]

    @property
    def _is_whole(self) -> bool:
        return self._rows * self._blocks == self._queries

    def result(self) -> Tensor:
        """Rows of all heads side by side."""
        powers = self._powers(self._scores())
        totals = self._along_keys(powers, te.sum, "total")
        sums = self._sums(powers)
        depth, zero = self._options.depth, const(0.0, self._wide)

        def element(b: Var, i: Var, h: Var, f: Var) -> PrimExpr:
            at = (b, h, i // self._rows, i % self._rows)
            total = totals(*at)
            quotient = Select(total.equal(zero), zero, sums(*at, f) / total)
            return quotient.astype(self._query.dtype)

        batch, heads = self._outer
        shape = [batch, const(self._queries), heads, const(depth)]
        attrs = {HEAD_ATTENTION: "result", INLINE_RULE: "disable"}
        return te.compute(shape, element, "T_heads", INJECTIVE, attrs)

    def _stage(self, name: str, extents: Sequence[int], element: Callable[..., ExprLike]) -> Tensor:
        shape = [*self._outer, *map(const, extents)]
        attrs = {HEAD_ATTENTION: name}
        return te.compute(shape, element, f"T_heads_{name}", INJECTIVE, attrs)

    def _row(self, block: PrimExpr, row: PrimExpr) -> PrimExpr:
        """The query of a row; the last one again where there are none left."""
        number = block * self._rows + row
        return number if self._is_whole else minimum(number, self._queries - 1)

    def _feature(self, tensor: int, head: PrimExpr, feature: PrimExpr) -> PrimExpr:
        return self._options.offsets[tensor] + head * self._options.depth + feature

    def _turned_keys(self) -> Tensor:
        """Keys side by side, which is how vectors take them; zeros beyond the last one."""

        def element(b: Var, h: Var, d: Var, j: Var) -> PrimExpr:
            own = self._key(b, minimum(j, self._keys - 1), self._feature(1, h, d))
            return own.astype(self._wide)

        return self._stage("keys", [self._options.depth, self._padded], element)

    def _scores(self) -> Tensor:
        keys = self._turned_keys()
        d = te.reduce_axis((0, self._options.depth), name="d")

        def product(b: Var, h: Var, n: Var, r: Var, j: Var) -> ExprLike:
            own = self._query(b, self._row(n, r), self._feature(0, h, d.var)).astype(self._wide)
            return te.sum(own * keys(b, h, d, j), axis=d)

        extents = [self._blocks, self._rows, self._padded]
        products = self._stage("products", extents, product)
        return self._stage("scores", extents, lambda *i: self._masked(products(*i), i))

    def _masked(self, product: PrimExpr, at: Sequence[Var]) -> PrimExpr:
        b, h, n, r, j = at
        nothing = const(-math.inf, self._wide)
        score = product * const(self._options.factor, self._wide)
        if self._mask is not None:
            own = self._mask_at([b, h, self._row(n, r), minimum(j, self._keys - 1)])
            score = Select(own, score, nothing) if own.dtype.is_bool else score + own
        if self._options.is_causal:
            score = Select(j <= n * self._rows + r, score, nothing)
        return Select(j < self._keys, score, nothing) if self._padded > self._keys else score

    def _mask_at(self, at: Sequence[PrimExpr]) -> PrimExpr:
        assert self._mask is not None
        own = convert(element_at(self._mask, self._scores_shape, at))
        return own if own.dtype.is_bool else own.astype(self._wide)

    def _along_keys(self, terms: Tensor, reduce: Callable[..., ExprLike], name: str) -> Tensor:
        j = te.reduce_axis((0, self._padded), name="j")
        extents = [self._blocks, self._rows]
        return self._stage(name, extents, lambda *i: reduce(terms(*i, j), axis=j))

    def _powers(self, scores: Tensor) -> Tensor:
        # te.max starts from a finite number, so a query that sees no key gets zeros, not NaN.
        largest = self._along_keys(scores, te.max, "largest")
        extents = [self._blocks, self._rows, self._padded]
        return self._stage("powers", extents, lambda *i: exp(scores(*i) - largest(*i[:-1])))

    def _sums(self, powers: Tensor) -> Tensor:
        def own(b: Var, h: Var, j: Var, f: Var) -> PrimExpr:
            return self._value(b, j, self._feature(2, h, f)).astype(self._wide)

        # Rows of one head behind each other: those of a token are far apart.
        values = self._stage("values", [self._keys, self._options.depth], own)
        j = te.reduce_axis((0, self._keys), name="j")

        def product(b: Var, h: Var, n: Var, r: Var, f: Var) -> ExprLike:
            return te.sum(powers(b, h, n, r, j) * values(b, h, j, f), axis=j)

        return self._stage("sums", [self._blocks, self._rows, self._options.depth], product)


def _blocks_of(queries: int) -> tuple[int, int]:
    """Rows of a block and the number of blocks, with the least rows too many."""
    tiles = -(-queries // TILE_ROWS)
    counts = [count for count in BLOCK_TILES if count <= tiles] or [tiles]
    best = min(counts, key=lambda count: (-(-tiles // count) * count, -count))
    return best * TILE_ROWS, -(-tiles // best)


def _check(query: Tensor, key: Tensor, value: Tensor, options: HeadOptions) -> None:
    wanted = options.heads * options.depth
    for tensor, offset in zip((query, key, value), options.offsets, strict=True):
        check_ndim(tensor, 3, "head_attention")
        check_float(tensor, "head_attention")
        width = constant_extent(tensor.shape[2], "head_attention")
        if offset < 0 or offset + wanted > width:
            raise TensorExpressionError(
                f"head_attention: {options.heads} heads of {options.depth} features from "
                f"{offset} on do not fit into the {width} features of {tensor.name}"
            )
        if not same_extent(tensor.shape[0], query.shape[0]) or tensor.dtype is not query.dtype:
            raise TensorExpressionError(
                f"head_attention: {tensor.name} must have the type and the batch of {query.name}"
            )
    if not same_extent(key.shape[1], value.shape[1]):
        raise TensorExpressionError("head_attention: there must be a value for each key")
