"""Quantised tensors: scales and zero points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.errors import GraphError
from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.frontend.onnx.converters.convolutions import (
    convolution,
    convolution_options,
    plus_bias,
)
from tilewright.frontend.onnx.converters.products import product
from tilewright.frontend.onnx.loading import checked_dtype
from tilewright.graph import GraphValue
from tilewright.graph.graph import Array
from tilewright.graph.passes.quantized_forms import centred_weights


@dataclass(frozen=True)
class Quantization:
    """Scale and zero point of a tensor; `axis` is where their elements lie, if they are several."""

    scale: GraphValue
    zero: GraphValue | None
    axis: int = 1
    block: int = 0

    def stretched(self, node: NodeContext, x: GraphValue) -> tuple[GraphValue, GraphValue | None]:
        """Both in the form that `x` is computed with: one, per axis, or per block."""
        self._check(node)
        zero = None if self.zero is None else self._form(node, x, self.zero, "the zero point")
        return self._form(node, x, self.scale, "the scale"), zero

    def _form(
        self, node: NodeContext, x: GraphValue, parameter: GraphValue, what: str
    ) -> GraphValue:
        shape, own = node.shape(x), node.shape(parameter)
        if not own or own == [1]:
            return node.call("reshape", parameter, newshape=[])
        axis = self.axis % max(len(shape), 1)
        if self.block:
            repeated = node.call("repeat", parameter, repeats=self.block, axis=axis)
            zeros, ones = [0] * len(shape), [1] * len(shape)
            return node.call("strided_slice", repeated, begin=zeros, end=shape, strides=ones)
        if len(own) != 1 or not shape or own[0] != shape[axis]:
            raise GraphError(
                f"{what} has shape {own}, expected one element or one for each of axis {axis} of "
                f"{x.type}"
            )
        return node.call("reshape", parameter, newshape=[-1] + [1] * (len(shape) - 1 - axis))

    def _check(self, node: NodeContext) -> None:
        known = node.builder.constants.get(self.scale)
        if known is None:
            return
        numbers = np.asarray(known).astype(np.float64)
        if not np.all(np.isfinite(numbers) & (numbers > 0)):
            wrong = numbers.reshape(-1)[~(np.isfinite(numbers) & (numbers > 0)).reshape(-1)][0]
            raise GraphError(f"a scale is {wrong:g}, expected positive numbers")


def own_quantization(node: NodeContext, place: int, axis: int = 1) -> Quantization:
    """The scale that is the input at some place, and the zero point behind it."""
    return Quantization(node[place], node.optional(place + 1), axis)


def quantize(
    node: NodeContext, x: GraphValue, scale: GraphValue, zero: GraphValue | None, dtype: str
) -> GraphValue:
    """`x / scale + zero`, rounded to even and limited to what the type holds."""
    return node.call("qnn.quantize", x, scale, zero, dtype=dtype)


def as_bytes(node: NodeContext, x: GraphValue, own: Quantization) -> GraphValue:
    """Numbers, quantised; uint8 if there is no zero point that says it."""
    scale, zero = own.stretched(node, x)
    return quantize(node, x, scale, zero, "uint8" if zero is None else zero.type.dtype)


def as_floats(node: NodeContext, x: GraphValue, own: Quantization) -> GraphValue:
    """Quantised numbers as the ones that they stand for."""
    if own.zero is not None and own.zero.type.dtype != x.type.dtype:
        raise GraphError(f"the zero point is {own.zero.type.dtype}, the data {x.type.dtype}")
    return node.call("qnn.dequantize", x, *own.stretched(node, x))


@converts("QuantizeLinear", "com.microsoft.QuantizeLinear")
def _quantize(node: NodeContext) -> GraphValue:
    zero = node.optional(2)
    chosen = node.attr("output_dtype", 0)
    dtype = checked_dtype(chosen, "the result") if chosen else "uint8"
    if zero is not None and chosen and zero.type.dtype != dtype:
        raise GraphError(f"the zero point is {zero.type.dtype}, output_dtype is {dtype}")
    dtype = dtype if zero is None else zero.type.dtype
    axis, block = int(node.attr("axis", 1)), int(node.attr("block_size", 0))
    scale, moved = Quantization(node[1], zero, axis, block).stretched(node, node[0])
    if dtype.startswith("float"):
        return saturating_float(node, node.call("divide", node[0], scale), dtype)
    return quantize(node, node[0], scale, moved, dtype)


_LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def saturating_float(node: NodeContext, x: GraphValue, dtype: str) -> GraphValue:
    """Numbers as small floats, those beyond the range as the largest that there is."""
    largest = _LARGEST[dtype]
    limited = node.call("clip", x, a_min=-largest, a_max=largest)
    kept = node.call("where", node.call("isnan", x), x, limited)
    return node.call("cast", kept, dtype=dtype)


@converts("DequantizeLinear", "com.microsoft.DequantizeLinear")
def _dequantize(node: NodeContext) -> GraphValue:
    chosen = node.attr("output_dtype", 0)
    kind = node.type(1).dtype
    result = checked_dtype(chosen, "the result") if chosen else kind
    axis, block = int(node.attr("axis", 1)), int(node.attr("block_size", 0))
    made = as_floats(node, node[0], Quantization(node[1], node.optional(2), axis, block))
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


def _known_weights(node: NodeContext, axis: int) -> Array | None:
    """Weights of an integer layer as int8 with a zero point of 0, if they are known and fit."""
    weight, zero = node[1], node.optional(3)
    known = [node.builder.constants.get(value) for value in (weight, zero) if value is not None]
    if any(array is None for array in known) or not _is_single(node, node.optional(2)):
        return None
    numbers = np.asarray(known[0])
    point = np.asarray(known[1] if zero is not None else 0)
    if point.size > 1 and point.shape != (numbers.shape[axis],):
        return None
    form = [-1 if n == axis else 1 for n in range(numbers.ndim)] if point.size > 1 else []
    return centred_weights(numbers, point.reshape(form))


def _is_single(node: NodeContext, zero: GraphValue | None) -> bool:
    return zero is None or node.shape(zero) in ([], [1])


def _less_zero(node: NodeContext, sums: GraphValue, weight_sums: Array) -> GraphValue:
    """Sums of products with bytes, less what the zero point of the data brought in."""
    zero = node.optional(2)
    if zero is None:
        return sums
    totals, point = node.constant(weight_sums, "int32"), node.call("reshape", zero, newshape=[])
    return node.call("qnn.subtract_zero", sums, totals, point)


@converts("MatMulInteger")
def _matmul_integer(node: NodeContext) -> GraphValue:
    weights = _known_weights(node, 1) if len(node.type(1).shape) == 2 else None
    if weights is not None and len(node.type(0).shape) >= 2:
        *batch, depth = node.shape(node[0])
        flat = node.call("reshape", node[0], newshape=[-1, depth])
        weight = node.constant(weights, "int8")
        sums = node.call("nn.matmul", flat, weight, out_dtype="int32")
        made = _less_zero(node, sums, weights.astype(np.int64).sum(axis=0))
        return node.call("reshape", made, newshape=[*batch, weights.shape[1]])
    return _integer_product(node, [(node[0], node.optional(2)), (node[1], node.optional(3))])


@converts("ConvInteger")
def _conv_integer(node: NodeContext) -> GraphValue:
    weights = _known_weights(node, 0) if len(node.type(1).shape) == 4 else None
    if weights is not None:
        weight, zero = node.constant(weights, "int8"), node.optional(2)
        border = None if zero is None else node.call("reshape", zero, newshape=[])
        options = convolution_options(node, weight)
        sums = node.call("qnn.conv2d", node[0], weight, border, **options)
        totals = weights.astype(np.int64).sum(axis=(1, 2, 3)).reshape(-1, 1, 1)
        return _less_zero(node, sums, totals)
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
    if len(node.type(3).shape) == 2 and _are_known(node, (1, 2, 3, 4, 5, 6, 7)):
        a = as_floats(node, node[0], own_quantization(node, 1, axis=-2))
        b = as_floats(node, node[3], own_quantization(node, 4))
        return as_bytes(node, product(node, a, b), own_quantization(node, 6))
    total = _integer_product(node, [(node[0], node[2]), (node[3], node[5])])
    scales = []
    for place, is_left in ((1, True), (4, False)):
        scale = node.call("cast", node[place], dtype="float32")
        form = [] if node.shape(scale) in ([], [1]) else _rows_and_columns(scale, is_left)
        scales.append(node.call("reshape", scale, newshape=form))
    return _requantized(node, total, node.call("multiply", *scales), 6)


@converts("QLinearConv")
def _qlinear_conv(node: NodeContext) -> GraphValue:
    if _are_known(node, (1, 2, 3, 4, 5, 6, 7)):
        x = as_floats(node, node[0], own_quantization(node, 1))
        weight = as_floats(node, node[3], own_quantization(node, 4, axis=0))
        bias = bias_of_sums(node, node.optional(8), (1, 4))
        return as_bytes(
            node, plus_bias(node, convolution(node, x, weight), bias), own_quantization(node, 6)
        )
    rank = len(node.type(0).shape)
    x = _centred(node, node[0], node[2], [])
    weight = _centred(node, node[3], node[5], [-1] + [1] * (rank - 1))
    total = plus_bias(node, convolution(node, x, weight), node.optional(8))
    scale = node.call("multiply", node.call("reshape", node[1], newshape=[]), node[4])
    form = [] if node.shape(node[4]) in ([], [1]) else [-1] + [1] * (rank - 2)
    return _requantized(node, total, node.call("reshape", scale, newshape=form), 6)


def _are_known(node: NodeContext, places: Sequence[int]) -> bool:
    """True if inputs are constants: the graph then gets integer operators for them."""
    return all(node[place] in node.builder.constants for place in places)


def bias_of_sums(
    node: NodeContext, bias: GraphValue | None, scales: tuple[int, int]
) -> GraphValue | None:
    """A bias of int32 sums as floats; their scale is the product of those of the operands."""
    if bias is None:
        return None
    product_of = node.call(
        "multiply", *(node.call("reshape", node[n], newshape=[-1]) for n in scales)
    )
    return as_floats(node, bias, Quantization(product_of, None, axis=0))
