"""Attention as one kernel, or two products with a softmax between, on what linear layers wrote.

Linear layers of the same input that make queries, keys and values become one. The results of all
three lie side by side; products read their heads from there, so that nothing is transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.rewriting import Rewriting, rewrite
from tilewright.space.gpu.attention_kernel import why_no_attention_kernel

_TURNED = [0, 2, 1, 3]  # heads before tokens, and back


def split_attention(graph: Graph) -> Graph:
    """The graph with each attention without a mask in parts."""
    makers = graph.makers()
    results: dict[GraphValue, GraphValue] = {}

    def replace(new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
        if node.op == "nn.attention" and len(node.operands) == 3 and _rank(node) == 4:
            made = _in_parts(new, node, makers)
            results[node.outputs[0]] = made
            return (new.call("transpose", made, source=node.source, axes=_TURNED),)
        if node.op == "transpose" and node.attrs.get("axes") == _TURNED:
            found = results.get(node.operands[0])
            return None if found is None else (found,)
        return None

    return rewrite(graph, replace)


def _rank(node: GraphNode) -> int:
    return len(node.outputs[0].type.shape)


def _in_parts(new: Rewriting, node: GraphNode, makers: dict[GraphValue, GraphNode]) -> GraphValue:
    query, key, value, parts = _operands(new, node, makers)
    options = {name: node.attrs[name] for name in ("is_causal", "scale") if name in node.attrs}
    if _is_one_kernel(node):
        operands = (query,) if query is key else (query, key, value)
        return new.call("nn.fused_attention", *operands, source=node.source, **options)
    scores = new.call(
        "nn.attention_scores", query, key, source=node.source, parts=parts[:2], **options
    )
    dtype = node.outputs[0].type.dtype
    weights = new.call("nn.attention_weights", scores, source=node.source, dtype=dtype)
    return new.call("nn.attention_values", weights, value, source=node.source, part=parts[2])


def _is_one_kernel(node: GraphNode) -> bool:
    kind = node.outputs[0].type
    width = kind.extents[-1]
    widths = {value.type.extents[-1] for value in node.operands}
    return widths == {width} and not why_no_attention_kernel(width, kind.dtype)


def _operands(
    new: Rewriting, node: GraphNode, makers: dict[GraphValue, GraphNode]
) -> tuple[GraphValue, GraphValue, GraphValue, list[int]]:
    """Queries, keys and values with tokens before heads, and which part of them each is."""
    layers = [_linear_layer(new.old, value, makers) for value in node.operands]
    found = [layer for layer in layers if layer is not None]
    if len(found) == 3 and len({(one.data, one.heads) for one in found}) == 1:
        merged = _merged(new, found, node)
        return merged, merged, merged, [0, 1, 2]
    query, key, value = (_untransposed(new, value, makers) for value in node.operands)
    return query, key, value, [0, 0, 0]


def _untransposed(
    new: Rewriting, value: GraphValue, makers: dict[GraphValue, GraphNode]
) -> GraphValue:
    maker = makers.get(value)
    if maker is not None and maker.op == "transpose" and maker.attrs["axes"] == _TURNED:
        return new.translated(maker.operands[0])
    return new.call("transpose", new.translated(value), axes=_TURNED)


@dataclass(frozen=True)
class _LinearLayer:
    """`data @ weight.T + bias`, seen as `(batch, tokens, heads, width)`."""

    data: GraphValue
    weight: GraphValue
    bias: GraphValue | None
    heads: tuple[object, ...]


def _linear_layer(
    graph: Graph, value: GraphValue, makers: dict[GraphValue, GraphNode]
) -> _LinearLayer | None:
    turned = makers.get(value)
    if turned is None or turned.op != "transpose" or turned.attrs["axes"] != _TURNED:
        return None
    shaped = makers.get(turned.operands[0])
    if shaped is None or shaped.op != "reshape":
        return None
    heads, last, bias = shaped.outputs[0].type.shape, makers.get(shaped.operands[0]), None
    if last is not None and last.op == "add" and len(last.operands) == 2:
        bias = last.operands[1]
        if bias not in graph.constants or len(bias.type.shape) != 1:
            return None
        last = makers.get(last.operands[0])
    if last is None or last.op != "nn.dense" or len(last.operands) != 2:
        return None
    data, weight = last.operands
    if weight not in graph.constants or last.attrs:
        return None
    return _LinearLayer(data, weight, bias, heads)


def _merged(new: Rewriting, layers: Sequence[_LinearLayer], node: GraphNode) -> GraphValue:
    arrays = [new.old.constants[layer.weight] for layer in layers]
    weight = new.constant(np.concatenate(arrays), "weights")
    made = new.call("nn.dense", new.translated(layers[0].data), weight, source=node.source)
    if any(layer.bias is not None for layer in layers):
        biases = [
            np.zeros(len(array), array.dtype)
            if layer.bias is None
            else new.old.constants[layer.bias]
            for layer, array in zip(layers, arrays, strict=True)
        ]
        bias = new.constant(np.concatenate(biases), "biases")
        made = new.call("add", made, bias, source=node.source)
    batch, tokens, heads, width = layers[0].heads
    shape = [batch, tokens, len(layers), heads, width]
    return new.call("reshape", made, source=node.source, newshape=shape)
