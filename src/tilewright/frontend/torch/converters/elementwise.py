"""Operators of single elements, and casts."""

from __future__ import annotations

import math

from tilewright.frontend.torch.context import CallContext, converts
from tilewright.graph import GraphValue

_UNARY = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh",
    "atan": "atan", "atanh": "atanh", "ceil": "ceil", "cos": "cos", "cosh": "cosh", "erf": "erf",
    "exp": "exp", "floor": "floor", "isinf": "isinf", "isnan": "isnan", "log": "log",
    "log1p": "log1p", "log2": "log2", "neg": "negative", "relu": "nn.relu", "round": "round",
    "rsqrt": "rsqrt", "sigmoid": "sigmoid", "sign": "sign", "silu": "nn.silu", "sin": "sin",
    "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
    "bitwise_not": "bitwise_not", "logical_not": "logical_not",
}  # fmt: skip
_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "maximum": "maximum",
    "minimum": "minimum", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor", "remainder": "floor_mod",
    "fmod": "mod", "atan2": "atan2", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "__lshift__": "left_shift",
    "__rshift__": "right_shift",
}  # fmt: skip
# Sums and products of truth values are truth values.
_OF_BOOLS = {
    "add": "logical_or", "maximum": "logical_or", "multiply": "logical_and",
    "minimum": "logical_and",
}  # fmt: skip
_SAME = ("alias", "clone", "contiguous", "detach", "dropout", "lift_fresh_copy", "_to_copy", "to")


@converts(*_UNARY)
def _unary(node: CallContext) -> GraphValue:
    name = node.op.partition(".")[0]
    return node.call(_UNARY[name], node.cast(node.value("self"), _operand_dtype(node, name)))


def _operand_dtype(node: CallContext, name: str) -> str:
    given = node.value("self").type.dtype
    return node.dtype if node.dtype.startswith("float") else given


@converts("round.decimals")
def _round_to_decimals(node: CallContext) -> GraphValue:
    value, decimals = node.value("self"), int(node["decimals"])
    scale = node.constant(10.0 ** abs(decimals), value.type.dtype)
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return node.call(back, node.call("round", node.call(there, value, scale)), scale)


@converts("reciprocal")
def _reciprocal(node: CallContext) -> GraphValue:
    value = node.cast(node.value("self"), node.dtype)
    return node.call("divide", node.constant(1, node.dtype), value)


@converts("log10")
def _log10(node: CallContext) -> GraphValue:
    value = node.call("log", node.cast(node.value("self"), node.dtype))
    return node.call("multiply", value, node.constant(1 / math.log(10), node.dtype))


@converts("exp2")
def _exp2(node: CallContext) -> GraphValue:
    value = node.cast(node.value("self"), node.dtype)
    return node.call("power", node.constant(2, node.dtype), value)


@converts("expm1")
def _expm1(node: CallContext) -> GraphValue:
    return _less_one(node, node.cast(node.value("self"), node.dtype))


def _less_one(node: CallContext, x: GraphValue) -> GraphValue:
    """`exp(x) - 1`, exact for small numbers, too: tanh(x / 2) * (exp(x) + 1)."""
    dtype = x.type.dtype
    half = node.call("tanh", node.call("multiply", x, node.constant(0.5, dtype)))
    return node.call("multiply", half, _plus_one(node, node.call("exp", x)))


def _plus_one(node: CallContext, x: GraphValue) -> GraphValue:
    return node.call("add", x, node.constant(1, x.type.dtype))


def _operands(node: CallContext, left: str = "self", right: str = "other") -> list[GraphValue]:
    """Both operands in the type in which PyTorch computes with them."""
    given = [node[left], node[right]]
    dtype = node.common_dtype(*given) if node.dtype == "bool" else node.dtype
    return [
        node.cast(v, dtype) if isinstance(v, GraphValue) else node.constant(v, dtype) for v in given
    ]


@converts(*_BINARY)
def _binary(node: CallContext) -> GraphValue:
    left, right = _operands(node)
    if node.args.get("alpha", 1) != 1:
        right = node.call("multiply", right, node.constant(node["alpha"], right.type.dtype))
    name = _BINARY[node.op.partition(".")[0]]
    if left.type.dtype == "bool":
        name = _OF_BOOLS.get(name, name)
    return node.call(name, left, right)


@converts("max.other", "min.other")
def _larger(node: CallContext) -> GraphValue:
    return node.call(f"{node.op[:3]}imum", *_operands(node))


@converts("logical_and", "logical_or", "logical_xor")
def _logical(node: CallContext) -> GraphValue:
    name = {"logical_xor": "not_equal"}.get(word := node.op.partition(".")[0], word)
    return node.call(name, *(_truth(node, node.value(side)) for side in ("self", "other")))


def _truth(node: CallContext, value: GraphValue) -> GraphValue:
    if value.type.dtype == "bool":
        return value
    return node.call("not_equal", value, node.constant(0, value.type.dtype))


@converts("div")
def _div(node: CallContext) -> GraphValue:
    left, right = _operands(node)
    mode = node.args.get("rounding_mode")
    if mode == "floor":
        return node.call("floor_divide", left, right)
    if left.type.dtype.startswith(("int", "uint")):
        return _towards_zero(node, left, right)
    quotient = node.call("divide", left, right)
    return quotient if mode is None else node.call("trunc", quotient)


def _towards_zero(node: CallContext, left: GraphValue, right: GraphValue) -> GraphValue:
    quotient = node.call("floor_divide", node.call("abs", left), node.call("abs", right))
    sign = node.call("multiply", node.call("sign", left), node.call("sign", right))
    return node.call("multiply", quotient, sign)


@converts("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def _pow(node: CallContext) -> GraphValue:
    exponent = node["exponent"]
    if not node.dtype.startswith(("int", "uint")):
        base = node.cast(node.value("self"), node.dtype)
        if exponent in (2, 0.5):
            return node.call("multiply", base, base) if exponent == 2 else node.call("sqrt", base)
        return node.call("power", *_operands(node, right="exponent"))
    if not isinstance(exponent, GraphValue) and exponent < 0:
        raise node.refuse("negative powers of integers are not supported")
    return node.call("integer_power", *_operands(node, right="exponent"))


@converts("rsub.Scalar")
def _rsub(node: CallContext) -> GraphValue:
    value, other = _operands(node)
    return node.call("subtract", other, value)


@converts("clamp", "hardtanh", "clamp_min", "clamp_max", "relu6")
def _clamp(node: CallContext) -> GraphValue:
    result, args = node.cast(node.value("self"), node.dtype), node.args
    low = args.get("min", args.get("min_val", 0.0 if node.op.startswith("relu6") else None))
    high = args.get("max", args.get("max_val", 6.0 if node.op.startswith("relu6") else None))
    for bound, op in ((low, "maximum"), (high, "minimum")):
        if isinstance(bound, GraphValue):
            result = node.call(op, result, node.cast(bound, node.dtype))
        elif bound is not None:
            result = node.call(op, result, node.constant(bound, node.dtype))
    return result


@converts("elu")
def _elu(node: CallContext) -> GraphValue:
    x, dtype = node.value("self"), node.dtype
    alpha, scale, inner = (node[name] for name in ("alpha", "scale", "input_scale"))
    below = _less_one(node, node.call("multiply", x, node.constant(inner, dtype)))
    below = node.call("multiply", below, node.constant(alpha * scale, dtype))
    above = node.call("multiply", x, node.constant(scale, dtype))
    is_above = node.call("greater", x, node.constant(0, dtype))
    return node.call("where", is_above, above, below)


@converts("gelu")
def _gelu(node: CallContext) -> GraphValue:
    return node.call(
        "nn.gelu", node.value("self"), approximate=node.args.get("approximate", "none")
    )


@converts("leaky_relu")
def _leaky_relu(node: CallContext) -> GraphValue:
    return node.call("nn.leaky_relu", node.value("self"), alpha=float(node["negative_slope"]))


@converts("hardsigmoid", "hardswish")
def _hard(node: CallContext) -> GraphValue:
    value = node.value("self")
    dtype = value.type.dtype
    line = node.call("add", value, node.constant(3.0, dtype))
    line = node.call("clip", line, a_min=0.0, a_max=6.0)
    gate = node.call("multiply", line, node.constant(1 / 6, dtype))
    return node.call("multiply", value, gate) if node.op.startswith("hardswish") else gate


@converts("where")
def _where(node: CallContext) -> GraphValue:
    chosen = (node.cast(node.value(name), node.dtype) for name in ("self", "other"))
    return node.call("where", node.cast(node.value("condition"), "bool"), *chosen)


@converts("masked_fill")
def _masked_fill(node: CallContext) -> GraphValue:
    filled = node.cast(node.value("value"), node.dtype)
    return node.call("where", node.value("mask"), filled, node.value("self"))


@converts(*_SAME)
def _same(node: CallContext) -> GraphValue:
    if node.op.startswith("dropout") and node.args.get("train") and node.args.get("p"):
        raise node.refuse("it drops elements at random")
    value = node.value("input" if "input" in node.args else "self")
    return node.cast(value, node.dtype) if value.type.dtype != node.dtype else value
