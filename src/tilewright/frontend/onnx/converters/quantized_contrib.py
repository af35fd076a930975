"""Quantised operators of onnxruntime's own domain: their numbers as floats, and back to bytes.

The graph finds integer operators for them where there are any.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.frontend.onnx.converters.pools import pooled, sliding_window
from tilewright.frontend.onnx.converters.quantized import (
    as_bytes,
    as_floats,
    bias_of_sums,
    own_quantization,
)
from tilewright.graph import GraphValue

_BINARY = {"QLinearAdd": "add", "QLinearMul": "multiply"}


def _real(node: NodeContext, place: int, axis: int = 1) -> GraphValue:
    """A tensor whose scale and zero point come behind it, as floats."""
    return as_floats(node, node[place], own_quantization(node, place + 1, axis))


def _first(node: NodeContext, place: int) -> NodeContext:
    """A node that reads floats instead of quantised numbers."""
    return replace(node, inputs=(_real(node, place),))


@converts(*(f"com.microsoft.{name}" for name in _BINARY))
def _binary(node: NodeContext) -> GraphValue:
    made = node.call(_BINARY[node.op_type], _real(node, 0), _real(node, 3))
    return as_bytes(node, made, own_quantization(node, 6))


@converts("com.microsoft.QGemm")
def _gemm(node: NodeContext) -> GraphValue:
    transposed_a, transposed_b = (bool(node.attr(name, 0)) for name in ("transA", "transB"))
    options = {"transpose_a": transposed_a, "transpose_b": transposed_b}
    axis = 0 if transposed_b else 1
    made = node.call("nn.matmul", _real(node, 0), _real(node, 3, axis), **options)
    alpha = float(node.attr("alpha", 1.0))
    bias = bias_of_sums(node, node.optional(6), (1, 4))
    made = made if bias is None else node.call("add", made, bias)
    if alpha != 1.0:  # of the product and of the bias, whose scale has it as a factor
        made = node.call("multiply", made, node.constant(alpha, made.type.dtype))
    return made if node.optional(7) is None else as_bytes(node, made, own_quantization(node, 7))


@converts("com.microsoft.QLinearGlobalAveragePool", "com.microsoft.QLinearReduceMean")
def _mean(node: NodeContext) -> GraphValue:
    rank = len(node.type(0).shape)
    axes = list(range(1, rank - 1)) if node.attr("channels_last", 0) else list(range(2, rank))
    keeps = True
    if node.op_type == "QLinearReduceMean":
        axes, keeps = node.attr("axes") or list(range(rank)), bool(node.attr("keepdims", 1))
    made = node.call("mean", _real(node, 0), axis=axes, keepdims=keeps)
    return as_bytes(node, made, own_quantization(node, 3))


def _averaged(node: NodeContext) -> GraphValue:
    return pooled(node, sliding_window(node), "avg")


@converts("com.microsoft.QLinearAveragePool")
def _average_pool(node: NodeContext) -> GraphValue:
    if not node.attr("channels_last", 0):
        return as_bytes(node, _averaged(_first(node, 0)), own_quantization(node, 3))
    rank = len(node.type(0).shape)
    first = node.call("transpose", _real(node, 0), axes=[0, rank - 1, *range(1, rank - 1)])
    pooled = _averaged(replace(node, inputs=(first,)))
    last = node.call("transpose", pooled, axes=[0, *range(2, rank), 1])
    return as_bytes(node, last, own_quantization(node, 3))


@converts("com.microsoft.QLinearSigmoid")
def _sigmoid(node: NodeContext) -> GraphValue:
    return as_bytes(node, node.call("sigmoid", _real(node, 0)), own_quantization(node, 3))


@converts("com.microsoft.QLinearLeakyRelu")
def _leaky_relu(node: NodeContext) -> GraphValue:
    made = node.call("nn.leaky_relu", _real(node, 0), alpha=float(node.attr("alpha", 0.01)))
    return as_bytes(node, made, own_quantization(node, 3))


@converts("com.microsoft.QLinearSoftmax")
def _softmax(node: NodeContext) -> GraphValue:
    made = node.call("nn.softmax", _real(node, 0), axis=int(node.attr("axis", -1)))
    return as_bytes(node, made, own_quantization(node, 3))


@converts("com.microsoft.QLinearConcat")
def _concat(node: NodeContext) -> GraphValue:
    parts = [_real(node, place) for place in range(2, len(node.inputs), 3)]
    made = node.call("concatenate", *parts, axis=int(node.attr("axis")))
    return as_bytes(node, made, own_quantization(node, 0))


@converts("com.microsoft.QLinearWhere")
def _where(node: NodeContext) -> GraphValue:
    made = node.call("where", node[0], _real(node, 1), _real(node, 4))
    return as_bytes(node, made, own_quantization(node, 7))
