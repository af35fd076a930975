"""Normalisations."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import GraphError
from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.graph import GraphValue


@converts("BatchNormalization")
def _batch_norm(node: NodeContext) -> GraphValue:
    if not node.attr("spatial", 1):
        raise GraphError("statistics for each element (spatial = 0) are not supported")
    if node.version < 14 and any(node.result_names[1:]):
        raise GraphError("training mode, which has more than one output, is not supported")
    inputs = [node[n] for n in range(5)]
    return node.call("nn.batch_norm", *inputs, axis=1, epsilon=float(node.attr("epsilon", 1e-5)))


@converts("BatchNormalization", since=14)
def _batch_norm_14(node: NodeContext) -> GraphValue | Sequence[GraphValue]:
    if not node.attr("training_mode", 0):
        return _batch_norm(node)
    axes = [n for n in range(len(node.type(0).shape)) if n != 1]
    mean = node.call("mean", node[0], axis=axes, keepdims=False)
    column = [-1] + [1] * (len(axes) - 1)
    centred = node.call("subtract", node[0], node.call("reshape", mean, newshape=column))
    squares = node.call("multiply", centred, centred)
    variance = node.call("mean", squares, axis=axes, keepdims=False)
    epsilon = float(node.attr("epsilon", 1e-5))
    inputs = (node[0], node[1], node[2], mean, variance)
    result = node.call("nn.batch_norm", *inputs, axis=1, epsilon=epsilon)
    momentum = float(node.attr("momentum", 0.9))
    kept = [_moved(node, node[3], mean, momentum), _moved(node, node[4], variance, momentum)]
    return [result, *kept]


def _moved(node: NodeContext, old: GraphValue, new: GraphValue, momentum: float) -> GraphValue:
    dtype = old.type.dtype
    return node.call(
        "add",
        node.call("multiply", old, node.constant(momentum, dtype)),
        node.call("multiply", new, node.constant(1 - momentum, dtype)),
    )


@converts("LayerNormalization")
def _layer_norm(node: NodeContext) -> Sequence[GraphValue]:
    rank = len(node.type(0).shape)
    axes = [*range(node.attr("axis", -1) % rank, rank)]
    epsilon = float(node.attr("epsilon", 1e-5))
    gamma, beta = node[1], node.optional(2)
    options = {"axis": axes, "epsilon": epsilon}
    shape = node.shape(node[0])[axes[0] :]
    if node.shape(gamma) != shape:  # stretched, which the norm itself does not do
        plain = node.call("nn.layer_norm", node[0], _ones(node, shape), None, **options)
        result = node.call("multiply", plain, gamma)
        result = result if beta is None else node.call("add", result, beta)
    else:
        result = node.call("nn.layer_norm", node[0], gamma, beta, **options)
    if len(node.result_names) == 1:
        return (result,)
    wide = node.call("cast", node[0], dtype="float32")
    mean = node.call("mean", wide, axis=axes, keepdims=True)
    centred = node.call("subtract", wide, mean)
    variance = node.call("mean", node.call("multiply", centred, centred), axis=axes, keepdims=True)
    shifted = node.call("add", variance, node.constant(epsilon, "float32"))
    return result, mean, node.call("rsqrt", shifted)


def _ones(node: NodeContext, shape: Sequence[int]) -> GraphValue:
    return node.call("full", shape=list(shape), dtype=node.type(0).dtype, fill_value=1)


@converts("InstanceNormalization")
def _instance_norm(node: NodeContext) -> GraphValue:
    axes = [*range(2, len(node.type(0).shape))]
    epsilon = float(node.attr("epsilon", 1e-5))
    inputs = (node[0], node[1], node[2])
    return node.call("nn.instance_norm", *inputs, channel_axis=1, axis=axes, epsilon=epsilon)


@converts("GroupNormalization", since=18)
def _group_norm_18(node: NodeContext) -> GraphValue:
    """Factors and offsets are those of groups."""
    size = node.shape(node[0])[1] // int(node.attr("num_groups"))
    return _group_norm(node, *(node.call("repeat", node[n], repeats=size, axis=0) for n in (1, 2)))


@converts("GroupNormalization", since=21)
def _group_norm_21(node: NodeContext) -> GraphValue:
    return _group_norm(node, node[1], node[2])


def _group_norm(node: NodeContext, scale: GraphValue, shift: GraphValue) -> GraphValue:
    axes = [*range(2, len(node.type(0).shape))]
    return node.call(
        "nn.group_norm", node[0], scale, shift, num_groups=int(node.attr("num_groups")),
        channel_axis=1, axes=axes, epsilon=float(node.attr("epsilon", 1e-5)),
    )  # fmt: skip


@converts("LpNormalization")
def _lp_norm(node: NodeContext) -> GraphValue:
    axis, dtype = node.attr("axis", -1), node.type(0).dtype
    if node.attr("p", 2) == 1:
        norm = node.call("sum", node.call("abs", node[0]), axis=axis, keepdims=True)
    else:
        squares = node.call("multiply", node[0], node[0])
        norm = node.call("sqrt", node.call("sum", squares, axis=axis, keepdims=True))
    zero = node.constant(0, dtype)
    # Where all elements are 0 the norm is, and the result is 0.
    is_zero = node.call("equal", norm, zero)
    divisor = node.call("where", is_zero, node.constant(1, dtype), norm)
    return node.call("divide", node[0], divisor)


@converts("LRN")
def _local_response(node: NodeContext) -> GraphValue:
    size, dtype = int(node.attr("size")), node.type(0).dtype
    squares = node.call("multiply", node[0], node[0])
    before = (size - 1) // 2
    rank = len(node.type(0).shape)
    pad_before, pad_after = [0] * rank, [0] * rank
    pad_before[1], pad_after[1] = before, size - 1 - before
    padded = node.call("nn.pad", squares, pad_before=pad_before, pad_after=pad_after, pad_value=0.0)
    total = _part(node, padded, 0)
    for n in range(1, size):
        total = node.call("add", total, _part(node, padded, n))
    scale = node.constant(node.attr("alpha", 1e-4) / size, dtype)
    bias = node.constant(node.attr("bias", 1.0), dtype)
    base = node.call("add", node.call("multiply", total, scale), bias)
    power = node.call("power", base, node.constant(node.attr("beta", 0.75), dtype))
    return node.call("divide", node[0], power)


def _part(node: NodeContext, padded: GraphValue, first: int) -> GraphValue:
    """As many channels as the input has, from one on."""
    shape = node.shape(node[0])
    rest = [0] * (len(shape) - 2)
    return node.call(
        "strided_slice", padded, begin=[0, first, *rest],
        end=[shape[0], first + shape[1], *shape[2:]], strides=[1] * len(shape),
    )  # fmt: skip
