"""Padding and dilation with zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, PrimExpr, Var, const, convert, logical_and
from tilewright.ir.intrinsics import if_then_else
from tilewright.te import Tensor
from tilewright.topi.axes import INJECTIVE, NamedTensor, is_zero, positive_per_axis


def pad(
    data: Tensor,
    pad_before: Sequence[ExprLike],
    pad_after: Sequence[ExprLike] | None = None,
    pad_value: float | PrimExpr = 0.0,
    name: str = "PadInput",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor:
    """`data` with a border of `pad_value`; `pad_after` defaults to `pad_before`."""
    after = pad_before if pad_after is None else pad_after
    if len(pad_before) != data.ndim or len(after) != data.ndim:
        raise TensorExpressionError(
            f"pad: {data.name} has {data.ndim} dimensions, got {len(pad_before)} widths before "
            f"and {len(after)} after"
        )
    if any(isinstance(width, int) and width < 0 for width in (*pad_before, *after)):
        raise TensorExpressionError(
            f"pad: widths {list(pad_before)} and {list(after)} must not be negative"
        )
    value = pad_value if isinstance(pad_value, PrimExpr) else const(pad_value, data.dtype)
    shape = [
        extent + left + right
        for extent, left, right in zip(data.shape, pad_before, after, strict=True)
    ]

    def element(*i: Var) -> ExprLike:
        conditions = []
        own: list[ExprLike] = []
        for d, index in enumerate(i):
            if is_zero(pad_before[d]) and is_zero(after[d]):
                own.append(index)
                continue
            own.append(index - pad_before[d])
            conditions.append(index >= pad_before[d])
            conditions.append(index < data.shape[d] + pad_before[d])
        if not conditions:
            return data(*own)
        return if_then_else(logical_and(*conditions), data(*own), value)

    return te.compute(shape, element, name, f"{INJECTIVE},pad", attrs)


def pad_named(
    data: NamedTensor,
    axes: Sequence[str],
    before: Sequence[int],
    after: Sequence[int],
    value: float | PrimExpr,
    name: str,
) -> NamedTensor:
    """`data` with a border along some of its axes."""
    first, last = (
        [side.get(axis, 0) for axis in data.axes]
        for side in (dict(zip(axes, widths, strict=True)) for widths in (before, after))
    )
    return NamedTensor(pad(data.tensor, first, last, value, name), data.axes)


def dilate(
    data: Tensor, strides: Sequence[int], dilation_value: float = 0.0, name: str = "DilatedInput"
) -> Tensor:
    """`data` with `stride - 1` elements of `dilation_value` between neighbours on each axis."""
    if len(strides) != data.ndim:
        raise TensorExpressionError(
            f"dilate: {data.name} has {data.ndim} dimensions, got {len(strides)} strides"
        )
    steps = positive_per_axis(strides, data.ndim, "dilate strides")
    value = const(dilation_value, data.dtype)
    shape = [(extent - 1) * stride + 1 for extent, stride in zip(data.shape, steps, strict=True)]

    def element(*i: Var) -> ExprLike:
        conditions = []
        own: list[ExprLike] = []
        for index, stride in zip(i, steps, strict=True):
            own.append(convert(index) // stride)
            if stride != 1:
                conditions.append((index % stride).equal(0))
        if not conditions:
            return data(*own)
        return if_then_else(logical_and(*conditions), data(*own), value)

    return te.compute(shape, element, name, f"{INJECTIVE},dilate")
