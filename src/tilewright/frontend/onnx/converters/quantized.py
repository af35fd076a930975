"""Quantised tensors: scales and zero points."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.frontend.onnx.converters.convolutions import convolution, plus_bias
from tilewright.frontend.onnx.converters.products import product
from tilewright.frontend.onnx.loading import checked_dtype
from tilewright.graph import GraphValue


def _stretched(node: NodeContext, x: GraphValue, parameter: GraphValue) -> GraphValue:
    """A scale or zero point in the form that `x` is computed with: one, per axis, or per block."""
    shape, own = node.shape(x), node.shape(parameter)
    if not own or own == [1]:
        return node.call("reshape", parameter, newshape=[])
    axis = node.attr("axis", 1) % len(shape)
    size = int(node.attr("block_size", 0))
    if size:
        repeated = node.call("repeat", parameter, repeats=size, axis=axis)
        zeros, ones = [0] * len(shape), [1] * len(shape)
        return node.call("strided_slice", repeated, begin=zeros, end=shape, strides=ones)
    return node.call("reshape", parameter, newshape=[-1] + [1] * (len(shape) - 1 - axis))


def quantize(
    node: NodeContext, x: GraphValue, scale: GraphValue, zero: GraphValue | None, dtype: str
) -> GraphValue:
    """`x / scale + zero`, rounded to even and limited to what the type holds."""
    kind = scale.type.dtype
    if x.type.dtype != kind:
        x = node.call("cast", x, dtype=kind)
    steps = node.call("round", node.call("divide", x, scale))
    if zero is not None:
        steps = node.call("add", steps, node.call("cast", zero, dtype=kind))
    return node.call("saturating_cast", steps, dtype=dtype)


@converts("QuantizeLinear")
def _quantize(node: NodeContext) -> GraphValue:
    zero = node.optional(2)
    chosen = node.attr("output_dtype", 0)
    dtype = checked_dtype(chosen, "the result") if chosen else "uint8"
    dtype = dtype if zero is None else zero.type.dtype
    if dtype.startswith("float"):
        return _float_quantize(node, dtype)
    scale = _stretched(node, node[0], node[1])
    moved = None if zero is None else _stretched(node, node[0], zero)
    return quantize(node, node[0], scale, moved, dtype)


def _float_quantize(node: NodeContext, dtype: str) -> GraphValue:
    steps = node.call("divide", node[0], _stretched(node, node[0], node[1]))
    return saturating_float(node, steps, dtype)


_LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def saturating_float(node: NodeContext, x: GraphValue, dtype: str) -> GraphValue:
    """Numbers as small floats, those beyond the range as the largest that there is."""
    largest = _LARGEST[dtype]
    limited = node.call("clip", x, a_min=-largest, a_max=largest)
    kept = node.call("where", node.call("isnan", x), x, limited)
    return node.call("cast", kept, dtype=dtype)


@converts("DequantizeLinear")
def _dequantize(node: NodeContext) -> GraphValue:
    chosen = node.attr("output_dtype", 0)
    result = checked_dtype(chosen, "the result") if chosen else node.type(1).dtype
    scale, zero = _stretched(node, node[0], node[1]), node.optional(2)
    kind = node.type(1).dtype
    x = node.call("cast", node[0], dtype=kind)
    if zero is not None:
        moved = _stretched(node, node[0], zero)
        x = node.call("subtract", x, node.call("cast", moved, dtype=kind))
    made = node.call("multiply", x, scale)
    return made if kind == result else node.call("cast", made, dtype=result)


def _centred(
    node: NodeContext, x: GraphValue, zero: GraphValue | None, shape: Sequence[int]
) -> GraphValue:
    """int32 numbers without their zero point, which has the given shape unless it is one number."""
    wide = node.call("cast", x, dtype="int32")
    if zero is None:
        return wide
    point = node.call("cast", zero, dtype="int32")
    form = [] if node.shape(zero) in ([], [1]) else list(shape)
    return node.call("subtract", wide, node.call("reshape", point, newshape=form))


def _rows_and_columns(zero: GraphValue | None, is_left: bool) -> list[int]:
    """A zero point for each row of the left or each column of the right operand."""
    if zero is not None and len(zero.type.shape) > 1:
        return list(zero.type.extents)
    return [-1, 1] if is_left else [1, -1]


def _integer_product(
    node: NodeContext, operands: Sequence[tuple[GraphValue, GraphValue | None]]
) -> GraphValue:
    left, right = (
        _centred(node, x, zero, _rows_and_columns(zero, n == 0))
        for n, (x, zero) in enumerate(operands)
    )
    return product(node, left, right)


@converts("MatMulInteger")
def _matmul_integer(node: NodeContext) -> GraphValue:
    return _integer_product(node, [(node[0], node.optional(2)), (node[1], node.optional(3))])


@converts("ConvInteger")
def _conv_integer(node: NodeContext) -> GraphValue:
    tail = [1] * (len(node.type(1).shape) - 1)
    x = _centred(node, node[0], node.optional(2), [])
    return convolution(node, x, _centred(node, node[1], node.optional(3), [-1, *tail]))


def _requantized(node: NodeContext, total: GraphValue, scale: GraphValue, place: int) -> GraphValue:
    """int32 sums times a scale, over the scale of the result."""
    kind = "float32"
    real = node.call("cast", total, dtype=kind)
    own = node.call("cast", node[place], dtype=kind)
    factor = node.call("divide", scale, node.call("reshape", own, newshape=[]))
    zero = node.call("reshape", node[place + 1], newshape=[])
    steps = node.call("round", node.call("multiply", real, factor))
    moved = node.call("add", steps, node.call("cast", zero, dtype=kind))
    return node.call("saturating_cast", moved, dtype=zero.type.dtype)


@converts("QLinearMatMul")
def _qlinear_matmul(node: NodeContext) -> GraphValue:
    total = _integer_product(node, [(node[0], node[2]), (node[3], node[5])])
    scales = []
    for place, is_left in ((1, True), (4, False)):
        scale = node.call("cast", node[place], dtype="float32")
        form = [] if node.shape(scale) in ([], [1]) else _rows_and_columns(scale, is_left)
        scales.append(node.call("reshape", scale, newshape=form))
    return _requantized(node, total, node.call("multiply", *scales), 6)


@converts("QLinearConv")
def _qlinear_conv(node: NodeContext) -> GraphValue:
    rank = len(node.type(0).shape)
    x = _centred(node, node[0], node[2], [])
    weight = _centred(node, node[3], node[5], [-1] + [1] * (rank - 1))
    total = plus_bias(node, convolution(node, x, weight), node.optional(8))
    scale = node.call("multiply", node.call("reshape", node[1], newshape=[]), node[4])
    form = [] if node.shape(node[4]) in ([], [1]) else [-1] + [1] * (rank - 2)
    return _requantized(node, total, node.call("reshape", scale, newshape=form), 6)
