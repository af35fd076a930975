"""Operators that choose elements: strided_slice, take, gather, embedding, where, one_hot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import ir
from tilewright.errors import TensorExpressionError
from tilewright.te import Tensor
from tilewright.topi import axes as ax, index_bounds as bounds
from tilewright.topi.broadcast import Operand, broadcast_shape, element_at
from tilewright.topi.transform import unflatten_index

__all__ = ["strided_slice", "take", "gather", "gather_nd", "where", "one_hot"]


def strided_slice(
    a: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> Tensor:
    """`a[begin:end:strides]` with Python's rules, on the leading axes or on `axes`."""
    where = list(range(len(begin))) if axes is None else list(axes)
    steps = [1] * len(begin) if strides is None else list(strides)
    if not len(begin) == len(end) == len(steps) == len(where):
        raise TensorExpressionError(
            f"strided_slice: begin, end, strides and axes have {len(begin)}, {len(end)}, "
            f"{len(steps)} and {len(where)} entries"
        )
    ranges: dict[int, range] = {}
    for axis, first, last, step in zip(where, begin, end, steps, strict=True):
        at = ax.normalize_axis(axis, a.ndim, "strided_slice")
        if at in ranges:
            raise TensorExpressionError(f"strided_slice: an axis is named twice in {where}")
        if step == 0:
            raise TensorExpressionError(f"strided_slice: the stride of axis {at} is zero")
        extent = ax.constant_extent(a.shape[at], "strided_slice")
        # An end below -extent means "before the first element", which Python writes as None.
        stop = None if step < 0 and last < -extent else last
        ranges[at] = range(extent)[first:stop:step]

    def element(*i: ir.Var) -> ir.PrimExpr:
        own: list[ir.ExprLike] = list(i)
        for d, chosen in ranges.items():
            own[d] = i[d] * chosen.step + chosen.start
        return a(*own)

    shape = [
        ir.const(len(ranges[d]), extent.dtype) if d in ranges else extent
        for d, extent in enumerate(a.shape)
    ]
    return ax.compute_ax(shape, element, "T_strided_slice", ax.INJECTIVE)


def _clip_index(index: ir.PrimExpr, extent: ir.PrimExpr) -> ir.PrimExpr:
    last = ir.cast(index.dtype, extent) - 1
    return ir.minimum(ir.maximum(ir.const(0, index.dtype), index), last)


def _wrap_index(index: ir.PrimExpr, extent: ir.PrimExpr) -> ir.PrimExpr:
    size = ir.cast(index.dtype, extent)
    return index if ax.is_zero(extent) else ir.truncmod(ir.truncmod(index, size) + size, size)


_INDEX_MODES: dict[str, Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr]] = {
    "fast": lambda index, extent: index,
    "clip": _clip_index,
    "wrap": _wrap_index,
}


def take(a: Tensor, indices: Tensor, axis: int | None = None, mode: str = "clip") -> Tensor:
    """Elements of `a` along `axis` (or of the flattened tensor) at `indices`.

    Indices out of range are limited in mode "clip" (-1 is the first element), and taken modulo the
    extent in mode "wrap" (-1 is the last one). With "fast" the caller promises that there are none:
    nothing is checked, and an index out of range reads outside of `a`.
    """
    bounds.check_indices(indices, "take")
    ax.check_one_of(mode, _INDEX_MODES, "mode", "take")
    adjust = _INDEX_MODES[mode]
    if axis is None:
        size = ax.extent_product(a.shape)
        bounds.check_choice(size, indices, "take")
        return ax.compute_ax(
            indices.shape,
            lambda *i: a(*unflatten_index(adjust(bounds.signed_index(indices(*i)), size), a.shape)),
            "T_take",
            ax.INJECTIVE,
        )
    at = ax.normalize_axis(axis, a.ndim, "take")
    bounds.check_choice(a.shape[at], indices, "take")
    count = indices.ndim

    def element(*i: ir.Var) -> ir.PrimExpr:
        chosen = adjust(bounds.signed_index(indices(*i[at : at + count])), a.shape[at])
        return a(*i[:at], chosen, *i[at + count :])

    shape = [*a.shape[:at], *indices.shape, *a.shape[at + 1 :]]
    return ax.compute_ax(shape, element, "T_take", ax.INJECTIVE)


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """`out[i, j] = data[i, indices[i, j]]` for `axis` 1, and so on.

    Negative indices count from the end; indices beyond either end are limited.
    """
    bounds.check_indices(indices, "gather")
    at = ax.normalize_axis(axis, data.ndim, "gather")
    if indices.ndim != data.ndim:
        raise TensorExpressionError(
            f"gather: indices must have {data.ndim} dimensions as data, it has {indices.ndim}"
        )
    for d, extents in enumerate(zip(indices.shape, data.shape, strict=True)):
        if d != at:
            bounds.check_within(*extents, d, "gather")
    bounds.check_choice(data.shape[at], indices, "gather")

    def element(*i: ir.Var) -> ir.PrimExpr:
        chosen = bounds.clipped_index(indices(*i), data.shape[at])
        return data(*i[:at], chosen, *i[at + 1 :])

    return ax.compute_ax(indices.shape, element, "T_gather", ax.INJECTIVE)


def gather_nd(data: Tensor, indices: Tensor) -> Tensor:
    """`out[k...] = data[indices[0, k...], indices[1, k...], ...]`.

    Negative indices count from the end; indices beyond either end are limited.
    """
    bounds.check_indices(indices, "gather_nd")
    depth = bounds.index_depth(data, indices, 0, "gather_nd")
    for extent in data.shape[:depth]:
        bounds.check_choice(extent, indices, "gather_nd")
    count = indices.ndim - 1

    def element(*i: ir.Var) -> ir.PrimExpr:
        chosen = [
            bounds.clipped_index(indices(ir.const(d), *i[:count]), data.shape[d])
            for d in range(depth)
        ]
        return data(*chosen, *i[count:])

    shape = [*indices.shape[1:], *data.shape[depth:]]
    return ax.compute_ax(shape, element, "T_gather_nd", ax.INJECTIVE)


def embedding(indices: Tensor, weight: Tensor) -> Tensor:
    """`out[i..., j] = weight[indices[i...], j]`: a row of `weight` for every index.

    Negative indices count from the end; what is still outside is limited to the nearest row.
    """
    bounds.check_indices(indices, "embedding")
    ax.check_ndim(weight, 2, "embedding")
    rows, columns = weight.shape
    bounds.check_choice(rows, indices, "embedding")

    def element(*i: ir.Var) -> ir.PrimExpr:
        return weight(bounds.clipped_index(indices(*i[:-1]), rows), i[-1])

    return ax.compute_ax([*indices.shape, columns], element, "T_embedding", ax.INJECTIVE)


def where(condition: Tensor, x: Operand, y: Operand) -> Tensor:
    """`x` where `condition` is true (or non-zero), else `y`."""
    shape = list(condition.shape)
    for operand in (x, y):
        if isinstance(operand, Tensor):
            shape = broadcast_shape(shape, operand.shape, "where")

    def element(*i: ir.Var) -> ir.PrimExpr:
        chosen = ir.convert(element_at(condition, shape, i))
        if not chosen.dtype.is_bool:
            chosen = ir.not_equal(chosen, ir.const(0, chosen.dtype))
        return ir.Select(chosen, *ir.match_types(element_at(x, shape, i), element_at(y, shape, i)))

    return ax.compute_ax(shape, element, "T_where", ax.BROADCAST)


def one_hot(
    indices: Tensor, on_value: float, off_value: float, depth: int, axis: int, dtype: str
) -> Tensor:
    """`on_value` at each index along a new axis of extent `depth`, elsewhere `off_value`."""
    bounds.check_indices(indices, "one_hot")
    at = ax.normalize_axis(axis, indices.ndim + 1, "one_hot")
    if depth < 0:
        raise TensorExpressionError(f"one_hot: depth {depth} must not be negative")
    on, off = ir.const(on_value, dtype), ir.const(off_value, dtype)

    def element(*i: ir.Var) -> ir.PrimExpr:
        return ir.Select(indices(*i[:at], *i[at + 1 :]).equal(i[at]), on, off)

    shape = [*indices.shape[:at], ir.const(depth), *indices.shape[at:]]
    return ax.compute_ax(shape, element, "T_one_hot", ax.INJECTIVE)
