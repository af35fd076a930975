"""Layers of networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.torch.context import CallContext, converts
from tilewright.graph import GraphValue


def plus_bias(
    node: CallContext, result: GraphValue, bias: GraphValue | None, tail: list[int]
) -> GraphValue:
    """A result with a number added to each channel, which `tail` axes of 1 follow."""
    if bias is None:
        return result
    shaped = node.call("reshape", bias, newshape=[-1, *tail]) if tail else bias
    return node.call("add", result, shaped)


@converts("linear")
def _linear(node: CallContext) -> GraphValue:
    value, weight = node.value("input"), node.value("weight")
    shape, out = node.shape(value), node.shape(weight)[0]
    flat = value if len(shape) == 2 else node.call("reshape", value, newshape=[-1, shape[-1]])
    result = plus_bias(node, node.call("nn.dense", flat, weight), node.args.get("bias"), [])
    return result if len(shape) == 2 else node.call("reshape", result, newshape=[*shape[:-1], out])


@converts("addmm", "baddbmm")
def _addmm(node: CallContext) -> GraphValue:
    factors = ("mat1", "mat2") if node.op.startswith("addmm") else ("batch1", "batch2")
    product = node.call("matmul", *(node.value(name) for name in factors))
    product = _scaled(node, product, node.args.get("alpha", 1))
    if node.args.get("beta", 1) == 0:  # even of NaN
        return product
    return node.call("add", product, _scaled(node, node.value("self"), node.args.get("beta", 1)))


def _scaled(node: CallContext, value: GraphValue, factor: float) -> GraphValue:
    if factor == 1:
        return value
    return node.call("multiply", value, node.constant(factor, value.type.dtype))


@converts("mm", "bmm", "matmul")
def _matmul(node: CallContext) -> GraphValue:
    other = "mat2" if "mat2" in node.args else "other"
    return node.call("matmul", node.value("self"), node.value(other))


@converts("scaled_dot_product_attention")
def _attention(node: CallContext) -> GraphValue:
    if node.args.get("dropout_p"):
        raise node.refuse("dropout is not supported")
    query, key, value = (node.value(name) for name in ("query", "key", "value"))
    if node.args.get("enable_gqa"):
        heads, groups = node.shape(query)[-3], node.shape(key)[-3]
        if heads != groups:  # some queries share a key
            axis, times = len(node.shape(query)) - 3, heads // groups
            key = node.call("repeat", key, repeats=times, axis=axis)
            value = node.call("repeat", value, repeats=times, axis=axis)
    return node.call(
        "nn.attention", query, key, value,
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
    made = _normalized(node, node.value("running_mean"), node.value("running_var"))
    return made if node.op.startswith("batch") else (made, None, None)


@converts("_native_batch_norm_legit.no_stats")
def _norm_of_batch(node: CallContext) -> Any:
    """Normalises by the mean and variance of the batch itself."""
    if not node["training"]:
        raise node.refuse("a norm without statistics needs those of the batch")
    value = node.value("input")
    axes = [n for n in range(len(value.type.shape)) if n != 1]
    mean = node.call("mean", value, axis=axes, keepdims=True)
    centred = node.call("subtract", value, mean)
    squares = node.call("multiply", centred, centred)
    variance = node.call("mean", squares, axis=axes, keepdims=False)
    mean = node.call("reshape", mean, newshape=[node.shape(value)[1]])
    return _normalized(node, mean, variance), None, None


def _normalized(node: CallContext, mean: GraphValue, variance: GraphValue) -> GraphValue:
    scale, shift = _of_channels(node, node.shape(mean))
    inputs = (node.value("input"), scale, shift, mean, variance)
    return node.call("nn.batch_norm", *inputs, axis=1, epsilon=float(node["eps"]))


def _of_channels(node: CallContext, shape: list[int]) -> tuple[GraphValue, GraphValue]:
    """Factor and offset of each channel."""
    dtype = node.value("input").type.dtype
    factor, offset = node.args.get("weight"), node.args.get("bias")
    ones = node.constant(np.ones(shape), dtype) if factor is None else factor
    return ones, node.constant(np.zeros(shape), dtype) if offset is None else offset


@converts("native_group_norm")
def _group_norm(node: CallContext) -> Any:
    value = node.value("input")
    shape = node.shape(value)
    scale, shift = _of_channels(node, [shape[1]])
    made = node.call(
        "nn.group_norm", value, scale, shift, num_groups=node["group"], channel_axis=1,
        axes=[*range(2, len(shape))], epsilon=float(node["eps"]),
    )  # fmt: skip
    return made, None, None
