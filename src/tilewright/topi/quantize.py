"""From 32-bit sums back to narrow integers: fixed-point scales, zero points, saturation.

A scale is a multiplier in Q31 and a shift: `scale = multiplier * 2**(shift - 31)`, where
`fixed_point_scales` finds both. Products are rounded to the nearest integer, halves upwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from tilewright import ir, te
from tilewright.errors import TensorExpressionError
from tilewright.ir import intrinsics as math
from tilewright.ir.intrinsics import q_multiply_shift, q_multiply_shift_per_axis
from tilewright.te import Tensor
from tilewright.topi.axes import ELEMENTWISE, check_extents, check_ndim, is_zero, normalize_axis
from tilewright.topi.elementwise import map_elements

__all__ = [
    "fixed_point_scales", "fixed_point_multiply", "fixed_point_multiply_per_axis",
    "saturating_cast", "Requantization", "requantize",
]  # fmt: skip

FRACTION_BITS = 31
LARGEST_SHIFT = 30  # to the left; one more and even 1 times the scale overflows
Scale: TypeAlias = SupportsIndex | Tensor  # of the whole tensor, or one for each channel
Axes: TypeAlias = int | Sequence[int]


def fixed_point_scales(scales: Any) -> tuple[Any, Any]:
    """Real scales between 0 and 2**29 as (multipliers, shifts), int32 arrays of the same shape."""
    wanted = np.asarray(scales, dtype=np.float64)
    if not np.all((wanted > 0) & (wanted < 2.0**29)):
        raise TensorExpressionError("fixed_point_scales: scales must lie between 0 and 2**29")
    fraction, shift = np.frexp(wanted)
    multiplier = np.rint(np.ldexp(fraction, FRACTION_BITS)).astype(np.int64)
    carried = multiplier == 1 << FRACTION_BITS  # a fraction that was rounded up to one
    multiplier, shift = np.where(carried, multiplier >> 1, multiplier), shift + carried
    vanishes = shift < -FRACTION_BITS  # no int32 times such a scale reaches one half
    multiplier, shift = np.where(vanishes, 0, multiplier), np.where(vanishes, 0, shift)
    return multiplier.astype(np.int32)[()], shift.astype(np.int32)[()]


def fixed_point_multiply(x: Tensor, multiplier: int, shift: int) -> Tensor:
    """Every int32 element times `multiplier * 2**(shift - 31)`."""
    check_dtype(x, ("int32",), "fixed_point_multiply")
    return map_elements(x, lambda v: q_multiply_shift(v, multiplier, FRACTION_BITS, shift))


def fixed_point_multiply_per_axis(
    x: Tensor,
    y: Tensor,
    lshift: Tensor,
    rshift: Tensor,
    is_lshift_required: bool,
    is_rshift_required: bool,
    axes: Sequence[int],
) -> Tensor:
    """Every int32 element times `y * 2**(lshift - rshift - 31)`, which vary along `axes`."""
    what = "fixed_point_multiply_per_axis"
    check_dtype(x, ("int32",), what)
    own = channel_axes(x, axes, what)
    for parameter in (y, lshift, rshift):
        check_channels(x, parameter, own, what)

    def element(*i: ir.Var) -> ir.ExprLike:
        c = [i[axis] for axis in own]
        flags = bool(is_lshift_required), bool(is_rshift_required)
        return q_multiply_shift_per_axis(
            x(*i), y(*c), lshift(*c), rshift(*c), FRACTION_BITS, *flags
        )

    return te.compute(x.shape, element, tag=ELEMENTWISE)


def saturating_cast(x: Tensor, dtype: str) -> Tensor:
    """Every element as an integer of type `dtype`; what does not fit becomes the nearest limit."""
    return map_elements(x, lambda v: saturated(v, dtype))


def saturated(value: ir.PrimExpr, dtype: str) -> ir.PrimExpr:
    """A value limited to an integer type and converted to it.

    Floats lose their fraction, and NaN becomes 0.
    """
    low, high = _integer_limits(dtype, 32, "saturating_cast")
    if value.dtype.is_float:
        # Where the limits are exact: rounded up, the upper one would not fit.
        value = ir.cast("float32" if ir.DType(dtype).bits <= 16 else "float64", value)
        value = ir.Select(value.equal(value), value, ir.const(0, value.dtype))
    if ir.max_value_of(value.dtype) > high:
        value = ir.minimum(value, ir.const(high, value.dtype))
    if ir.min_value_of(value.dtype) < low:
        value = ir.maximum(value, ir.const(low, value.dtype))
    return ir.cast(dtype, value)


def _integer_limits(dtype: str, bits: int, what: str) -> tuple[int, int]:
    target = ir.DType(dtype)
    if not target.is_integral or target.is_bool or target.bits > bits:
        raise TensorExpressionError(
            f"{what}: {dtype!r} is not an integer type of at most {bits} bits"
        )
    return int(ir.min_value_of(target)), int(ir.max_value_of(target))


@dataclass(frozen=True)
class Requantization:
    """The arguments of `requantize` that say what the result is, for operators that end in it."""

    multiplier: Scale
    shift: Scale
    zero_point: ir.ExprLike = 0
    dtype: str = "int8"
    enlarges: bool = True

    def apply(self, sums: Tensor, axis: Axes = -1, bias: Tensor | None = None) -> Tensor:
        """The sums, brought to the result's scale."""
        what, dtype, zero_point = "requantize", self.dtype, self.zero_point
        check_dtype(sums, ("int32",), what)
        low, high = _integer_limits(dtype, 16, what)
        if isinstance(zero_point, int) and not low <= zero_point <= high:
            raise TensorExpressionError(
                f"{what}: zero point {zero_point} is not a value of {dtype!r}"
            )
        scaled = _scaling(self.multiplier, self.shift, self.enlarges)
        own = channel_axes(sums, axis, what) if sums.ndim else []  # of a point there is one
        for parameter in (self.multiplier, self.shift, bias):
            if isinstance(parameter, Tensor):
                check_channels(sums, parameter, own, what)

        def element(*i: ir.Var) -> ir.ExprLike:
            channel = [i[a] for a in own]
            # The bias first: what it is made from is then computed before the sums, and the last
            # to read the weights, whose layout is free, are the sums.
            value = sums(*i) if bias is None else bias(*channel) + sums(*i)
            return _moved_to_zero_point(scaled(value, channel), zero_point, dtype)

        return te.compute(sums.shape, element, name="requantize", tag=ELEMENTWISE)


def requantize(
    data: Tensor,
    multiplier: Scale,
    shift: Scale,
    zero_point: ir.ExprLike = 0,
    dtype: str = "int8",
    axis: Axes = -1,
    *,
    bias: Tensor | None = None,
    enlarges: bool = True,
) -> Tensor:
    """int32 sums as `saturated(round((data + bias) * scale) + zero_point)`, in one operation.

    Multiplier and shift are two integers, or two int32 tensors with one element for each channel,
    as `bias` has; channels lie along `axis` (several axes where channels are blocked: those of the
    parameters in order). `enlarges=False` promises that no scale is 1 or more, which is cheaper.
    """
    return Requantization(multiplier, shift, zero_point, dtype, enlarges).apply(data, axis, bias)


def _scaling(
    multiplier: Scale, shift: Scale, enlarges: bool
) -> Callable[[ir.PrimExpr, Sequence[ir.Var]], ir.PrimExpr]:
    """What brings a value of some channel to its scale."""
    match multiplier, shift:
        case Tensor(), Tensor():
            return lambda value, channel: _scaled_per_channel(
                value, multiplier(*channel), shift(*channel), enlarges
            )
        case SupportsIndex(), SupportsIndex():
            return lambda value, channel: _scaled(value, index(multiplier), index(shift))
    raise TensorExpressionError(
        "requantize: multiplier and shift must both be integers or both be tensors"
    )


def _scaled(value: ir.PrimExpr, multiplier: int, shift: int) -> ir.PrimExpr:
    half, one = 1 << (FRACTION_BITS - 1), 1 << FRACTION_BITS
    if not (multiplier == 0 or half <= multiplier < one):
        raise TensorExpressionError(
            f"requantize: multiplier {multiplier} is neither 0 nor in Q31 between one half and one"
        )
    if not -FRACTION_BITS <= shift <= LARGEST_SHIFT:
        raise TensorExpressionError(
            f"requantize: shift {shift} is not between -{FRACTION_BITS} and {LARGEST_SHIFT}"
        )
    if shift > 0:
        value = _bounded_for_left_shift(value, ir.const(shift, value.dtype))
    return q_multiply_shift(value, multiplier, FRACTION_BITS, shift)


def _scaled_per_channel(
    value: ir.PrimExpr, multiplier: ir.PrimExpr, shift: ir.PrimExpr, enlarges: bool
) -> ir.PrimExpr:
    zero = ir.const(0, shift.dtype)
    if not enlarges:
        return q_multiply_shift_per_axis(
            value, multiplier, zero, zero - shift, FRACTION_BITS, False, True
        )
    left, right = ir.maximum(shift, zero), ir.maximum(zero - shift, zero)
    value = _bounded_for_left_shift(value, left)
    return q_multiply_shift_per_axis(value, multiplier, left, right, FRACTION_BITS, True, True)


def _bounded_for_left_shift(value: ir.PrimExpr, shift: ir.PrimExpr) -> ir.PrimExpr:
    """Limited so that the product stays in 32 bits.

    Multipliers are at least one half, so a value at the limit gives 2**30: far beyond 16 bits.
    """
    limit = math.shift_right(ir.const(2**31 - 1, value.dtype), shift)
    return ir.maximum(ir.minimum(value, limit), ir.const(-1, value.dtype) - limit)


def _moved_to_zero_point(value: ir.PrimExpr, zero_point: ir.ExprLike, dtype: str) -> ir.PrimExpr:
    """Limited before the zero point is added, so that the sum cannot overflow."""
    if is_zero(zero_point):
        return saturated(value, dtype)
    low, high = (ir.const(limit, value.dtype) for limit in _integer_limits(dtype, 16, "requantize"))
    offset = ir.cast(value.dtype, ir.convert(zero_point))
    bounded = ir.maximum(ir.minimum(value, high - offset), low - offset)
    return ir.cast(dtype, bounded + offset)


def channel_axes(data: Tensor, axis: Axes, what: str) -> list[int]:
    """The axes that channels lie along, from the left."""
    given = [axis] if isinstance(axis, int) else axis
    return [normalize_axis(each, data.ndim, what) for each in given]


def check_dtype(tensor: Tensor, dtypes: Sequence[str], what: str) -> None:
    """Insist on one of some types."""
    if str(tensor.dtype) not in dtypes:
        raise TensorExpressionError(
            f"{what}: {tensor.name} is {tensor.dtype!s}, expected {' or '.join(dtypes)}"
        )


def check_channels(data: Tensor, parameter: Tensor, axes: Sequence[int], what: str) -> None:
    """Insist that a parameter has one int32 element for each channel."""
    check_dtype(parameter, ("int32",), what)
    check_ndim(parameter, len(axes), what)
    for position, axis in enumerate(axes):
        description = f"the channels of {data.name} and {parameter.name}"
        check_extents(data.shape[axis], parameter.shape[position], what, description)
