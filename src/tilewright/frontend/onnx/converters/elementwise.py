"""Elementwise operators and broadcasts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import GraphError
from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.frontend.onnx.loading import checked_dtype
from tilewright.graph import GraphValue

_UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "BitwiseNot": "bitwise_not", "Ceil": "ceil", "Cos": "cos",
    "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor",
    "IsNaN": "isnan", "Log": "log", "Neg": "negative", "Not": "logical_not", "Relu": "nn.relu",
    "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh",
    "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
_BINARY = {
    "Add": "add", "And": "logical_and", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "Equal": "equal", "Greater": "greater",
    "GreaterOrEqual": "greater_equal", "Less": "less", "LessOrEqual": "less_equal",
    "Mul": "multiply", "Or": "logical_or", "Sub": "subtract", "Xor": "not_equal",
}  # fmt: skip
_MANY = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


@converts(*_UNARY)
def _unary(node: NodeContext) -> GraphValue:
    return node.call(_UNARY[node.op_type], node[0])


@converts("Identity")
def _identity(node: NodeContext) -> GraphValue:
    return node[0]


@converts(*_BINARY)
def _binary(node: NodeContext) -> GraphValue:
    return node.call(_BINARY[node.op_type], node[0], node[1])


@converts(*_MANY)
def _many(node: NodeContext) -> GraphValue:
    total = node[0]
    for position in range(1, len(node.inputs)):
        total = node.call(_MANY[node.op_type], total, node[position])
    return total


@converts("Mean")
def _mean(node: NodeContext) -> GraphValue:
    count = node.constant(len(node.inputs), node.type(0).dtype)
    total = node[0]
    for position in range(1, len(node.inputs)):
        total = node.call("add", total, node[position])
    return node.call("divide", total, count)


@converts("Div")
def _div(node: NodeContext) -> GraphValue:
    if node.type(0).dtype.startswith("float") or node.type(0).dtype == "bfloat16":
        return node.call("divide", node[0], node[1])
    # Towards zero, where ours goes down.
    quotient = node.call("floor_divide", node.call("abs", node[0]), node.call("abs", node[1]))
    if node.type(0).dtype.startswith("uint"):
        return quotient
    signs = node.call("multiply", node.call("sign", node[0]), node.call("sign", node[1]))
    return node.call("multiply", quotient, signs)


@converts("Pow")
def _pow(node: NodeContext) -> GraphValue:
    base, exponent = node[0], node[1]
    dtype = base.type.dtype
    if is_integer(dtype) and is_integer(exponent.type.dtype):
        return node.call("integer_power", base, exponent)
    # In the wider of both types; the result has that of the base.
    wide = "float64" if is_integer(dtype) else dtype
    parts = [
        x if x.type.dtype == wide else node.call("cast", x, dtype=wide) for x in (base, exponent)
    ]
    result = node.call("power", *parts)
    return result if wide == dtype else node.call("cast", result, dtype=dtype)


@converts("Mod")
def _mod(node: NodeContext) -> GraphValue:
    return node.call("mod" if node.attr("fmod", 0) else "floor_mod", node[0], node[1])


@converts("BitShift")
def _bit_shift(node: NodeContext) -> GraphValue:
    """Beyond the width of the type nothing is left, or the sign."""
    is_left, dtype = node.attr("direction") == "LEFT", node.type(0).dtype
    last = node.constant(np.iinfo(dtype).bits - 1, dtype)
    zero = node.constant(0, dtype)
    limited = node.call("maximum", node.call("minimum", node[1], last), zero)
    shifted = node.call("left_shift" if is_left else "right_shift", node[0], limited)
    is_within = node.call("less_equal", node[1], last)
    rest = zero
    if dtype.startswith("int"):
        is_within = node.call("logical_and", is_within, node.call("greater_equal", node[1], zero))
        rest = zero if is_left else node.call("right_shift", node[0], last)
    return node.call("where", is_within, shifted, rest)


@converts("BitCast")
def _bit_cast(node: NodeContext) -> GraphValue:
    dtype = checked_dtype(node.attr("to"), "the result")
    # A bool in memory is a byte of 0 or 1.
    x = node.call("cast", node[0], dtype="uint8") if node.type(0).dtype == "bool" else node[0]
    if dtype == "bool":
        return node.call("cast", x, dtype="bool")
    return node.call("reinterpret", x, dtype=dtype)


@converts("PRelu")
def _prelu(node: NodeContext) -> GraphValue:
    zero = node.constant(0, node.type(0).dtype)
    is_negative = node.call("less", node[0], zero)
    return node.call("where", is_negative, node.call("multiply", node[0], node[1]), node[0])


@converts("IsInf")
def _is_inf(node: NodeContext) -> GraphValue:
    infinite = node.call("isinf", node[0])
    zero = node.constant(0, node.type(0).dtype)
    for name, op in (("detect_positive", "less"), ("detect_negative", "greater")):
        if not node.attr(name, 1):
            infinite = node.call("logical_and", infinite, node.call(op, node[0], zero))
    return infinite


@converts("Where")
def _where(node: NodeContext) -> GraphValue:
    return node.call("where", node[0], node[1], node[2])


@converts("Clip")
def _clip(node: NodeContext) -> GraphValue:
    low, high = node.attr("min"), node.attr("max")
    result = node[0]
    for bound, position, op in ((low, 1, "maximum"), (high, 2, "minimum")):
        value = node.optional(position)
        if bound is not None:
            value = node.constant(bound, node.type(0).dtype)
        if value is not None:
            result = node.call(op, result, value)
    return result if result is not node[0] else node.call("identity", result)


@converts("LeakyRelu")
def _leaky_relu(node: NodeContext) -> GraphValue:
    return node.call("nn.leaky_relu", node[0], alpha=float(node.attr("alpha", 0.01)))


@converts("Gelu")
def _gelu(node: NodeContext) -> GraphValue:
    return node.call("nn.gelu", node[0], approximate=node.attr("approximate", "none"))


@converts("Reciprocal")
def _reciprocal(node: NodeContext) -> GraphValue:
    return node.call("divide", node.constant(1, node.type(0).dtype), node[0])


@converts("HardSigmoid")
def _hard_sigmoid(node: NodeContext) -> GraphValue:
    dtype = node.type(0).dtype
    slope = node.constant(node.attr("alpha", 0.2), dtype)
    offset = node.constant(node.attr("beta", 0.5), dtype)
    line = node.call("add", node.call("multiply", node[0], slope), offset)
    return node.call("clip", line, a_min=0.0, a_max=1.0)


@converts("HardSwish")
def _hard_swish(node: NodeContext) -> GraphValue:
    dtype = node.type(0).dtype
    line = node.call("multiply", node[0], node.constant(1 / 6, dtype))
    line = node.call("add", line, node.constant(0.5, dtype))
    return node.call("multiply", node[0], node.call("clip", line, a_min=0.0, a_max=1.0))


@converts("Dropout")
def _dropout(node: NodeContext) -> Sequence[GraphValue]:
    """Nothing is dropped when a model runs; in training, only if the ratio is 0."""
    training, ratio = node.known(2), node.known(1)
    if training is not None and bool(training) and (ratio is None or float(ratio) > 0):
        raise GraphError("training mode, which drops elements at random, is not supported")
    kept = node.call("full", shape=node.shape(node[0]), dtype="bool", fill_value=1)
    return node.call("identity", node[0]), kept


def is_integer(dtype: str) -> bool:
    """True for whole numbers."""
    return dtype.startswith(("int", "uint"))
