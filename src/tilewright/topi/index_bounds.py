"""Indices that come from data: negative ones count from the end, and none leads outside."""

from __future__ import annotations

from tilewright import ir
from tilewright.errors import TensorExpressionError
from tilewright.te import Tensor
from tilewright.topi.axes import constant_extent, is_zero


def check_indices(indices: Tensor, what: str) -> None:
    """Insist on integers."""
    if not indices.dtype.is_integral:
        raise TensorExpressionError(
            f"{what}: indices {indices.name} must be integers, they are {indices.dtype!s}"
        )


def check_choice(extent: ir.PrimExpr, indices: Tensor, what: str) -> None:
    """Insist that there is something to choose from, unless there is no index."""
    if is_zero(extent) and not any(map(is_zero, indices.shape)):
        raise TensorExpressionError(f"{what}: cannot choose from an axis without elements")


def check_within(given: ir.PrimExpr, limit: ir.PrimExpr, axis: int, what: str) -> None:
    """Insist that indices reach no further along an axis than the data."""
    if isinstance(given, ir.IntImm) and isinstance(limit, ir.IntImm) and given.value > limit.value:
        raise TensorExpressionError(
            f"{what}: indices have extent {given.value} at axis {axis}, "
            f"more than the {limit.value} of data"
        )


def index_depth(data: Tensor, indices: Tensor, least: int, what: str) -> int:
    """How many leading axes of `data` the first axis of `indices` chooses from."""
    if indices.ndim == 0:
        raise TensorExpressionError(f"{what}: indices must have at least 1 dimension, it has 0")
    depth = constant_extent(indices.shape[0], what)
    if not least <= depth <= data.ndim:
        raise TensorExpressionError(
            f"{what}: {depth} indices for a tensor of {data.ndim} dimensions"
        )
    return depth


def counted_from_start(index: ir.PrimExpr, extent: ir.PrimExpr) -> ir.PrimExpr:
    """The index as a signed integer, negative ones counted from the end; it may lie outside."""
    wide = signed_index(index)
    if index.dtype.is_uint:
        return wide
    return ir.Select(wide < 0, wide + extent.astype(wide.dtype), wide)


def signed_index(index: ir.PrimExpr) -> ir.PrimExpr:
    """The index as a signed integer of at least 32 bits, which extents fit as well."""
    if not index.dtype.is_uint:
        return index.astype(ir.INT32 if index.dtype.bits < 32 else index.dtype)
    if index.dtype.bits < 32:
        return index.astype(ir.INT32)
    if index.dtype.bits == 32:
        return index.astype(ir.INT64)
    # Half of the range does not fit; as far as bounds go all of that half is the same.
    largest = ir.const((1 << 63) - 1, index.dtype)
    return ir.minimum(index, largest).astype(ir.INT64)


def is_inside(index: ir.PrimExpr, extent: ir.PrimExpr) -> ir.PrimExpr:
    """True for an index in `[0, extent)`."""
    return ir.logical_and(index >= 0, index < extent.astype(index.dtype))


def clipped_index(index: ir.PrimExpr, extent: ir.PrimExpr) -> ir.PrimExpr:
    """The nearest index inside, after counting negative ones from the end."""
    if is_zero(extent):  # no index is inside, and `check_choice` saw to it that none is used
        return index
    own = counted_from_start(index, extent)
    last = extent.astype(own.dtype) - 1
    return ir.minimum(ir.maximum(own, ir.const(0, own.dtype)), last)
