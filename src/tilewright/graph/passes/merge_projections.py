"""Queries, keys and values of the same tokens come from one product, which reads them once.

The weights of the three linear layers stand side by side, and attention takes its parts of a row by
their offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.graph.graph import Array, Graph, GraphNode, GraphValue
from tilewright.graph.matching import Matcher
from tilewright.graph.rewriting import Rewriting, rewrite
from tilewright.ir.numpy_bridge import to_numpy

# Products of constant weights, and the axis of those that results lie along.
_PRODUCTS = {"nn.dense": 0, "nn.matmul": 1}


@dataclass(frozen=True)
class _Projection:
    product: GraphNode
    data: GraphValue
    bias: GraphValue | None


def merge_projections(graph: Graph) -> Graph:
    """The graph with one product before each attention of tokens to themselves."""
    matcher = Matcher(graph)

    def replace(new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
        if node.op != "nn.head_attention" or any(node.attrs.get("offsets") or ()):
            return None
        found = [_projection(graph, matcher, value) for value in node.operands[:3]]
        parts = [part for part in found if part is not None]
        if len(parts) < 3 or not _belong_together(graph, parts):
            return None
        return _merged(new, node, parts)

    return rewrite(graph, replace)


def _projection(graph: Graph, matcher: Matcher, value: GraphValue) -> _Projection | None:
    """The linear layer that made a value, if nobody else reads it."""
    value = matcher.without_views(value, once=True)
    bias = None
    add = matcher.only(value, "add")
    if add is not None:
        found = [v for v in add.operands if _is_bias(graph, v, add.outputs[0])]
        if len(found) != 1:
            return None
        (bias,) = found
        (value,) = (v for v in add.operands if v is not bias)
        value = matcher.without_views(value, once=True)
    product = matcher.only(value, *_PRODUCTS)
    if product is None or len(product.operands) != 2 or product.attrs.get("transpose_a"):
        return None
    return _Projection(product, matcher.without_views(product.operands[0]), bias)


def _is_bias(graph: Graph, value: GraphValue, result: GraphValue) -> bool:
    array = graph.constants.get(value)
    return array is not None and array.size == result.type.shape[-1] == array.shape[-1]


def _belong_together(graph: Graph, parts: Sequence[_Projection]) -> bool:
    first = parts[0]
    return all(
        part.data is first.data
        and part.product.op == first.product.op
        and part.product.attrs == first.product.attrs
        and part.product.operands[1] in graph.constants
        and graph.constants[part.product.operands[1]].ndim == 2
        and part.product.operands[0].type == first.product.operands[0].type
        for part in parts
    )


def _merged(
    new: Rewriting, node: GraphNode, parts: Sequence[_Projection]
) -> tuple[GraphValue, ...]:
    first = parts[0].product
    axis = _PRODUCTS[first.op] ^ bool(first.attrs.get("transpose_b"))
    weights = [new.old.constants[part.product.operands[1]] for part in parts]
    weight = new.constant(np.concatenate(weights, axis), "projections")
    data = new.translated(first.operands[0])
    (value,) = new.calls(first.op, (data, weight), first.attrs, (), node.source)
    if any(part.bias is not None for part in parts):
        biases = np.concatenate([_bias_of(new.old, part) for part in parts])
        value = new.call("add", value, new.constant(biases, "biases"))
    rows = node.operands[0].type.extents
    packed = new.call("reshape", value, newshape=[*rows[:2], value.type.extents[-1]])
    offsets = _offsets([weight.shape[axis] for weight in weights])
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    inputs = [packed, packed, packed, None if mask is None else new.translated(mask)]
    return new.calls(node.op, inputs, {**node.attrs, "offsets": offsets}, (), node.source)


def _bias_of(graph: Graph, part: _Projection) -> Array:
    """The bias of a layer, zeros if it has none."""
    if part.bias is not None:
        return graph.constants[part.bias].reshape(-1)
    result = part.product.outputs[0].type
    return np.zeros(result.extents[-1], to_numpy(result.dtype))


def _offsets(widths: Sequence[int]) -> list[int]:
    return [sum(widths[:number]) for number in range(len(widths))]
