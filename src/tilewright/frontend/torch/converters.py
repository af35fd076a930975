"""Operators of ATen, said in ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.torch.context import CallContext, converts, pair
from tilewright.graph import GraphValue

_UNARY = {
    "abs": "abs", "acos": "acos", "asin": "asin", "atan": "atan", "ceil": "ceil", "cos": "cos",
    "cosh": "cosh", "erf": "erf", "exp": "exp", "floor": "floor", "isinf": "isinf",
    "isnan": "isnan", "log": "log", "log2": "log2", "neg": "negative", "relu": "nn.relu",
    "round": "round", "rsqrt": "rsqrt", "sigmoid": "sigmoid", "sign": "sign", "silu": "nn.silu",
    "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
    "bitwise_not": "bitwise_not", "logical_not": "logical_not",
}  # fmt: skip
_BINARY = {
    "mul": "multiply", "maximum": "maximum", "minimum": "minimum", "eq": "equal",
    "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    "logical_and": "logical_and", "logical_or": "logical_or", "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
}  # fmt: skip
_SAME = ("alias", "clone", "contiguous", "detach", "dropout", "lift_fresh_copy", "_to_copy", "to")


@converts(*_UNARY)
def _unary(node: CallContext) -> GraphValue:
    name = node.op.partition(".")[0]
    return node.call(_UNARY[name], node.cast(node.value("self"), _operand_dtype(node, name)))


def _operand_dtype(node: CallContext, name: str) -> str:
    given = node.value("self").type.dtype
    return node.dtype if node.dtype.startswith("float") else given


def _operands(node: CallContext) -> tuple[GraphValue, GraphValue]:
    left, right = node["self"], node["other"]
    kinds = [v.type.dtype for v in (left, right) if isinstance(v, GraphValue)]
    dtype = node.dtype if node.dtype != "bool" or "bool" in kinds else _widest(kinds)
    values = [
        node.cast(v, dtype) if isinstance(v, GraphValue) else node.constant(v, dtype)
        for v in (left, right)
    ]
    return values[0], values[1]


def _widest(kinds: list[str]) -> str:
    return str(np.result_type(*kinds)) if len(kinds) > 1 else kinds[0]


@converts(*_BINARY)
def _binary(node: CallContext) -> GraphValue:
    return node.call(_BINARY[node.op.partition(".")[0]], *_operands(node))


@converts("add", "sub")
def _add(node: CallContext) -> GraphValue:
    left, right = _operands(node)
    if node.args.get("alpha", 1) != 1:
        right = node.call("multiply", right, node.constant(node["alpha"], right.type.dtype))
    return node.call("add" if node.op.startswith("add") else "subtract", left, right)


@converts("div")
def _div(node: CallContext) -> GraphValue:
    left, right = _operands(node)
    mode = node.args.get("rounding_mode")
    if mode == "floor":
        return node.call("floor_divide", left, right)
    quotient = node.call("divide", left, right)
    return quotient if mode is None else node.call("trunc", quotient)


@converts("pow.Tensor_Scalar")
def _pow(node: CallContext) -> GraphValue:
    base, exponent = node.value("self"), node["exponent"]
    if exponent == 2:
        return node.call("multiply", base, base)
    if exponent == 0.5:
        return node.call("sqrt", base)
    return node.call("power", base, node.constant(exponent, base.type.dtype))


@converts("rsub.Scalar")
def _rsub(node: CallContext) -> GraphValue:
    value = node.value("self")
    return node.call("subtract", node.constant(node["other"], value.type.dtype), value)


@converts("clamp", "hardtanh", "clamp_min", "relu6")
def _clamp(node: CallContext) -> GraphValue:
    result, args = node.value("self"), node.args
    low = args.get("min", args.get("min_val", 0.0 if node.op.startswith("relu6") else None))
    high = args.get("max", args.get("max_val", 6.0 if node.op.startswith("relu6") else None))
    for bound, op in ((low, "maximum"), (high, "minimum")):
        if bound is not None:
            result = node.call(op, result, node.constant(bound, result.type.dtype))
    return result


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
    return node.call("where", node.value("condition"), node.value("self"), node.value("other"))


@converts("masked_fill")
def _masked_fill(node: CallContext) -> GraphValue:
    value = node.value("self")
    filled = node.constant(node["value"], value.type.dtype)
    return node.call("where", node.value("mask"), filled, value)


@converts(*_SAME)
def _same(node: CallContext) -> GraphValue:
    if node.op.startswith("dropout") and node.args.get("train") and node.args.get("p"):
        raise node.refuse("it drops elements at random")
    value = node.value("input" if "input" in node.args else "self")
    return node.cast(value, node.dtype) if value.type.dtype != node.dtype else value


# --- shapes -------------------------------------------------------------------------------------


@converts("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten")
def _view(node: CallContext) -> GraphValue:
    return node.call("reshape", node.value("self"), newshape=node["result_shape"])


@converts("permute", "transpose", "t", "numpy_T")
def _permute(node: CallContext) -> GraphValue:
    value = node.value("self")
    rank = len(value.type.shape)
    axes = [*range(rank)]
    if "dims" in node.args:
        axes = [axis % rank for axis in node["dims"]]
    elif "dim0" in node.args:
        first, second = node["dim0"] % rank, node["dim1"] % rank
        axes[first], axes[second] = second, first
    else:
        axes.reverse()
    return node.call("transpose", value, axes=axes)


@converts("expand", "broadcast_to")
def _expand(node: CallContext) -> GraphValue:
    return node.call("broadcast_to", node.value("self"), shape=node["result_shape"])


@converts("cat", "concat")
def _cat(node: CallContext) -> GraphValue:
    tensors = [value for value in node["tensors"] if 0 not in value.type.shape]
    axis = node.args.get("dim", 0) % len(tensors[0].type.shape)
    return node.call("concatenate", *tensors, axis=axis)


@converts("stack")
def _stack(node: CallContext) -> GraphValue:
    tensors = node["tensors"]
    axis = node.args.get("dim", 0) % (len(tensors[0].type.shape) + 1)
    return node.call("stack", *tensors, axis=axis)


@converts("slice")
def _slice(node: CallContext) -> GraphValue:
    value = node.value("self")
    shape = node.shape(value)
    axis = node.args.get("dim", 0) % len(shape)
    extent = shape[axis]
    start, end = node.args.get("start") or 0, node.args.get("end")
    begin, stop, step = [0] * len(shape), list(shape), [1] * len(shape)
    begin[axis] = min(max(start + extent if start < 0 else start, 0), extent)
    last = extent if end is None else end
    stop[axis] = min(max(last + extent if last < 0 else last, begin[axis]), extent)
    step[axis] = node.args.get("step", 1)
    if begin == [0] * len(shape) and stop == shape and step[axis] == 1:
        return value
    return node.call("strided_slice", value, begin=begin, end=stop, strides=step)


@converts("select")
def _select(node: CallContext) -> GraphValue:
    value = node.value("self")
    shape = node.shape(value)
    axis = node["dim"] % len(shape)
    begin, end = [0] * len(shape), list(shape)
    begin[axis] = node["index"] % shape[axis]
    end[axis] = begin[axis] + 1
    part = node.call("strided_slice", value, begin=begin, end=end, strides=[1] * len(shape))
    return node.call("reshape", part, newshape=shape[:axis] + shape[axis + 1 :])


@converts("split", "split_with_sizes", "chunk", "unbind")
def _split(node: CallContext) -> Any:
    value = node.value("self")
    shape = node.shape(value)
    axis = node.args.get("dim", 0) % len(shape)
    sizes = [kind[axis] if node.op[:6] != "unbind" else 1 for kind in node["result_shapes"]]
    ends = np.cumsum(sizes)[:-1].tolist()
    parts = node.calls("split", value, indices_or_sections=ends, axis=axis)
    if not node.op.startswith("unbind"):
        return parts
    rest = shape[:axis] + shape[axis + 1 :]
    return tuple(node.call("reshape", part, newshape=rest) for part in parts)


@converts("embedding")
def _embedding(node: CallContext) -> GraphValue:
    return node.call("take", node.value("weight"), node.value("indices"), axis=0)


@converts("index_select")
def _index_select(node: CallContext) -> GraphValue:
    return node.call("take", node.value("self"), node.value("index"), axis=node["dim"])


@converts("constant_pad_nd", "pad")
def _pad(node: CallContext) -> GraphValue:
    value, pads = node.value("self"), list(node["pad"])
    if node.args.get("mode", "constant") != "constant":
        raise node.refuse(f"padding with mode {node['mode']!r} is not supported")
    rank = len(value.type.shape)
    before, after = [0] * rank, [0] * rank
    for n in range(len(pads) // 2):
        before[rank - 1 - n], after[rank - 1 - n] = pads[2 * n], pads[2 * n + 1]
    fill = float(node.args.get("value") or 0.0)
    return node.call("nn.pad", value, pad_before=before, pad_after=after, pad_value=fill)


# --- reductions ---------------------------------------------------------------------------------


@converts("mean", "sum", "amax", "amin", "any", "all", "max", "min", "prod")
def _reduce(node: CallContext) -> GraphValue:
    op = node.op.partition(".")[0]
    value = node.value("self")
    if op in ("mean", "sum"):
        value = node.cast(value, node.dtype)
    op = {"amax": "max", "amin": "min"}.get(op, op)
    axes, keep = node.axes("dim", value), bool(node.args.get("keepdim", False))
    return node.call(op, value, axis=axes, keepdims=keep)


@converts("max.dim", "min.dim")
def _with_places(node: CallContext) -> tuple[GraphValue, GraphValue]:
    name, value = node.op.partition(".")[0], node.value("self")
    options = {"axis": node["dim"], "keepdims": bool(node.args.get("keepdim", False))}
    places = node.call(f"arg{name}", value, **options)
    return node.call(name, value, **options), node.cast(places, "int64")


@converts("max.other", "min.other")
def _larger(node: CallContext) -> GraphValue:
    return node.call(f"{node.op.partition('.')[0]}imum", *_operands(node))


@converts("argmax", "argmin")
def _arg(node: CallContext) -> GraphValue:
    options = {"axis": node.args.get("dim"), "keepdims": bool(node.args.get("keepdim", False))}
    made = node.call(node.op.partition(".")[0], node.value("self"), **options)
    return node.cast(made, "int64")


@converts("softmax", "_softmax", "log_softmax", "_log_softmax")
def _softmax(node: CallContext) -> GraphValue:
    op = "nn.log_softmax" if "log" in node.op else "nn.softmax"
    return node.call(op, node.cast(node.value("self"), node.dtype), axis=node["dim"])


@converts("cumsum")
def _cumsum(node: CallContext) -> GraphValue:
    return node.call("cumsum", node.cast(node.value("self"), node.dtype), axis=node["dim"])


# --- layers -------------------------------------------------------------------------------------


@converts("conv1d", "conv2d", "conv3d", "convolution")
def _conv(node: CallContext) -> GraphValue:
    weight = node.value("weight")
    rank = len(weight.type.shape) - 2
    if node.args.get("transposed"):
        raise node.refuse("transposed convolutions are not supported yet")
    padding = node.args.get("padding", 0)
    if isinstance(padding, str):
        sides: Any = padding.upper()
    else:
        sides = pair(padding, rank) * 2
    options = {
        "strides": pair(node.args.get("stride", 1), rank),
        "padding": sides,
        "dilation": pair(node.args.get("dilation", 1), rank),
        "groups": int(node.args.get("groups", 1)),
    }
    result = node.call(f"nn.conv{rank}d", node.value("input"), weight, **options)
    return _plus(node, result, node.args.get("bias"), [1] * rank)


def _plus(
    node: CallContext, result: GraphValue, bias: GraphValue | None, tail: list[int]
) -> GraphValue:
    if bias is None:
        return result
    shaped = node.call("reshape", bias, newshape=[-1, *tail]) if tail else bias
    return node.call("add", result, shaped)


@converts("linear")
def _linear(node: CallContext) -> GraphValue:
    value, weight = node.value("input"), node.value("weight")
    shape, out = node.shape(value), node.shape(weight)[0]
    flat = value if len(shape) == 2 else node.call("reshape", value, newshape=[-1, shape[-1]])
    result = _plus(node, node.call("nn.dense", flat, weight), node.args.get("bias"), [])
    return result if len(shape) == 2 else node.call("reshape", result, newshape=[*shape[:-1], out])


@converts("addmm")
def _addmm(node: CallContext) -> GraphValue:
    product = node.call("nn.matmul", node.value("mat1"), node.value("mat2"))
    return node.call("add", product, node.value("self"))


@converts("mm", "bmm", "matmul")
def _matmul(node: CallContext) -> GraphValue:
    other = "mat2" if "mat2" in node.args else "other"
    return node.call("matmul", node.value("self"), node.value(other))


@converts("scaled_dot_product_attention")
def _attention(node: CallContext) -> GraphValue:
    if node.args.get("dropout_p") or node.args.get("enable_gqa"):
        raise node.refuse("dropout and groups of heads are not supported")
    return node.call(
        "nn.attention", node.value("query"), node.value("key"), node.value("value"),
        node.args.get("attn_mask"), is_causal=bool(node.args.get("is_causal", False)),
        scale=node.args.get("scale"),
    )  # fmt: skip


@converts("layer_norm", "native_layer_norm")
def _layer_norm(node: CallContext) -> Any:
    value, weight = node.value("input"), node.args.get("weight")
    rank, count = len(value.type.shape), len(node["normalized_shape"])
    if weight is None:
        weight = node.constant(np.ones(node["normalized_shape"]), value.type.dtype)
    axes = [*range(rank - count, rank)]
    made = node.call(
        "nn.layer_norm", value, weight, node.args.get("bias"), axis=axes, epsilon=float(node["eps"])
    )
    # The other results are for training.
    return (made, None, None) if node.op.startswith("native") else made


@converts("_native_batch_norm_legit_no_training", "batch_norm")
def _batch_norm(node: CallContext) -> Any:
    if node.args.get("training"):
        raise node.refuse("statistics of a batch (training mode) are not supported")
    names = ("input", "weight", "bias", "running_mean", "running_var")
    made = node.call(
        "nn.batch_norm", *(node.value(name) for name in names), axis=1, epsilon=float(node["eps"])
    )
    return made if node.op.startswith("batch") else (made, None, None)


@converts("max_pool2d", "avg_pool2d")
def _pool(node: CallContext) -> GraphValue:
    if node.args.get("divisor_override"):
        raise node.refuse("divisor_override is not supported")
    kernel = pair(node["kernel_size"])
    stride = pair(node.args.get("stride") or kernel)
    return node.call(
        "nn.pool2d", node.value("self"), kernel=kernel, stride=stride,
        dilation=pair(node.args.get("dilation", 1)), padding=pair(node.args.get("padding", 0)) * 2,
        pool_type=node.op[:3], ceil_mode=bool(node.args.get("ceil_mode", False)),
        count_include_pad=bool(node.args.get("count_include_pad", True)),
    )  # fmt: skip


@converts("adaptive_avg_pool2d", "_adaptive_avg_pool2d")
def _adaptive(node: CallContext) -> GraphValue:
    size = pair(node["output_size"])
    if size == [1, 1]:
        return node.call("mean", node.value("self"), axis=[2, 3], keepdims=True)
    return node.call("nn.adaptive_pool", node.value("self"), output_size=size, pool_type="avg")


# --- known values -------------------------------------------------------------------------------


@converts("arange")
def _arange(node: CallContext) -> GraphValue:
    start, end = node.args.get("start", 0), node["end"]
    return node.constant(np.arange(start, end, node.args.get("step", 1)), node.dtype)


@converts("full", "zeros", "ones", "scalar_tensor", "full_like", "zeros_like", "ones_like")
def _full(node: CallContext) -> GraphValue:
    name = node.op.partition(".")[0]
    number = {"zeros": 0, "zeros_like": 0, "ones": 1, "ones_like": 1}.get(
        name, node.args.get("fill_value", node.args.get("s"))
    )
    return node.constant(np.full(node["result_shape"], number), node.dtype)
