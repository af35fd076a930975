"""Operators on quantized tensors: a byte `q` stands for the number `(q - zero) * scale`.

Scales and zero points are tensors that are stretched to the data: one number, or one a channel.
Layers sum in int32; `qnn.requantize` brings sums back to bytes, behind the layer in one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import ir, te, topi
from tilewright.errors import TensorExpressionError
from tilewright.graph.operator import operator
from tilewright.ir import intrinsics as math
from tilewright.te import Tensor
from tilewright.topi.axes import COMM_REDUCE, ELEMENTWISE as ELEMENTWISE_TAG
from tilewright.topi.broadcast import element_at
from tilewright.topi.nn.conv import conv2d_nchw, conv2d_nhwc
from tilewright.topi.quantize import saturated

# These compute each element of the result from the elements at its place.
QUANTIZED_ELEMENTWISE = frozenset(
    f"qnn.{name}"
    for name in ("quantize", "dequantize", "requantize", "add", "flip_sign", "subtract_zero")
)
_CONV2D = {"NCHW": conv2d_nchw, "NHWC": conv2d_nhwc}


def _elements(x: Tensor, name: str, *operands: Tensor | None) -> tuple[list[ir.PrimExpr], str]:
    """The shape that all operands are stretched to, which has to be that of the data."""
    shape = list(x.shape)
    for operand in operands:
        if operand is not None:
            topi.broadcast_to(operand, shape)  # refuses what does not fit
    return shape, name


def _at(operand: Tensor, shape: Sequence[ir.PrimExpr], i: Sequence[ir.Var]) -> ir.PrimExpr:
    return ir.convert(element_at(operand, shape, i))


@operator("qnn.quantize")
def quantize(x: Tensor, scale: Tensor, zero: Tensor | None = None, dtype: str = "uint8") -> Tensor:
    """`x / scale + zero`, rounded to even and limited to what the type holds."""
    shape, name = _elements(x, "T_quantize", scale, zero)

    def element(*i: ir.Var) -> ir.PrimExpr:
        step = _at(scale, shape, i)
        value = math.nearbyint(ir.cast(scale.dtype, x(*i)) / step)
        if zero is not None:
            value = value + ir.cast(scale.dtype, _at(zero, shape, i))
        return saturated(value, dtype)

    return te.compute(shape, element, name, ELEMENTWISE_TAG)


@operator("qnn.dequantize")
def dequantize(x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """`(x - zero) * scale`, in the type of the scale."""
    shape, name = _elements(x, "T_dequantize", scale, zero)

    def element(*i: ir.Var) -> ir.PrimExpr:
        value = ir.cast(scale.dtype, x(*i))
        if zero is not None:
            value = value - ir.cast(scale.dtype, _at(zero, shape, i))
        return value * _at(scale, shape, i)

    return te.compute(shape, element, name, ELEMENTWISE_TAG)


def _as_bytes(value: ir.PrimExpr, zero: ir.PrimExpr, dtype: str, limits: Sequence[int]) -> ir.Cast:
    """A finite number of steps, rounded and limited; limits are those behind the zero point."""
    low, high = (ir.const(float(limit), value.dtype) for limit in limits)
    moved = math.nearbyint(value) + ir.cast(value.dtype, zero)
    return ir.Cast(ir.DType(dtype), ir.maximum(ir.minimum(moved, high), low))


@operator("qnn.requantize")
def requantize(
    sums: Tensor,
    offset: Tensor,
    factor: Tensor,
    zero: Tensor,
    bias: Tensor | None = None,
    *,
    limits: Sequence[int],
    dtype: str = "uint8",
) -> Tensor:
    """`(sums + offset) * factor + bias + zero`, rounded to even, within limits of the type."""
    shape, name = _elements(sums, "T_requantize", offset, factor, zero, bias)

    def element(*i: ir.Var) -> ir.PrimExpr:
        steps = ir.cast("float32", sums(*i) + _at(offset, shape, i)) * _at(factor, shape, i)
        steps = steps if bias is None else steps + _at(bias, shape, i)
        return _as_bytes(steps, _at(zero, shape, i), dtype, limits)

    return te.compute(shape, element, name, ELEMENTWISE_TAG)


@operator("qnn.add")
def add(
    a: Tensor,
    b: Tensor,
    factor_a: Tensor,
    factor_b: Tensor,
    offset: Tensor,
    limits: Sequence[int],
    dtype: str = "uint8",
) -> Tensor:
    """`a * factor_a + b * factor_b + offset`, rounded to even, within limits."""
    shape = topi.broadcast.broadcast_shape(a.shape, b.shape, "qnn.add")

    def element(*i: ir.Var) -> ir.PrimExpr:
        left, right = (ir.cast("float32", _at(x, shape, i)) for x in (a, b))
        value = left * factor_a() + offset() + right * factor_b()
        return _as_bytes(value, ir.const(0, "int32"), dtype, limits)

    return te.compute(shape, element, "T_quantized_add", ELEMENTWISE_TAG)


@operator("qnn.subtract_zero")
def subtract_zero(sums: Tensor, weight_sums: Tensor, zero: Tensor) -> Tensor:
    """int32 sums less `weight_sums * zero`, what the zero point of the data brought in."""
    shape, name = _elements(sums, "T_subtract_zero", weight_sums, zero)

    def element(*i: ir.Var) -> ir.PrimExpr:
        brought_in = _at(weight_sums, shape, i) * ir.cast("int32", _at(zero, shape, i))
        return ir.convert(sums(*i) - brought_in)

    return te.compute(shape, element, name, ELEMENTWISE_TAG)


@operator("qnn.flip_sign")
def flip_sign(x: Tensor) -> Tensor:
    """int8 as uint8 and the other way round, where all numbers are 128 further along."""
    other = {"int8": "uint8", "uint8": "int8"}[str(x.dtype)]
    moved = 128 if other == "uint8" else -128

    def element(*i: ir.Var) -> ir.PrimExpr:
        return ir.cast(other, ir.cast("int32", x(*i)) + moved)

    return te.compute(x.shape, element, "T_flip_sign", ELEMENTWISE_TAG)


@operator("qnn.conv2d")
def conv2d(
    x: Tensor,
    weight: Tensor,
    zero: Tensor | None = None,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
    border: int = 0,
    data_layout: str = "NCHW",
) -> Tensor:
    """int32 sums of a convolution; what is outside of the data is its zero point.

    That is `border`, or `zero` where it is known only when the model runs.
    """
    outside: int | ir.PrimExpr = border if zero is None else ir.convert(zero())
    compute = _CONV2D[data_layout]
    return compute(x, weight, strides, padding, dilation, groups, "int32", outside)


@operator("qnn.mean")
def mean(
    x: Tensor,
    offset: Tensor,
    factor: Tensor,
    zero: Tensor,
    axis: Sequence[int],
    limits: Sequence[int],
    keepdims: bool = True,
) -> Tensor:
    """The sum of uint8 over some axes, requantized to uint8."""
    if not keepdims:
        raise TensorExpressionError("qnn.mean keeps its axes; leave out keepdims=False")
    axes = {at: te.reduce_axis((0, x.shape[at]), f"k{at}") for at in axis}
    shape = [ir.const(1) if at in axes else extent for at, extent in enumerate(x.shape)]

    def element(*i: ir.Var) -> ir.PrimExpr:
        own = [axes[at].var if at in axes else index for at, index in enumerate(i)]
        return te.sum(x(*own).astype("int32"), axis=list(axes.values()))

    sums = te.compute(shape, element, "T_quantized_sum", COMM_REDUCE)
    return requantize(sums, offset, factor, zero, limits=limits)
