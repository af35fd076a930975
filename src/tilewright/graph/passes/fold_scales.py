"""Batch norms behind a convolution or a product become part of its weights and bias.

A norm of known numbers is `x * scale + shift`. The scale goes into the weights, where it costs
nothing, and the shift is a bias. Norms that stand elsewhere become a product and a sum, which fuse.
"""

from __future__ import annotations

import numpy as np

from tilewright.graph.graph import Array, Graph, GraphNode, GraphValue
from tilewright.graph.rewriting import Rewriting, rewrite


def fold_scales(graph: Graph) -> Graph:
    """The graph without batch norms whose numbers are known."""
    makers = graph.makers()
    consumers = graph.consumers()
    absorbed: dict[GraphValue, GraphNode] = {}
    for node in graph.nodes:
        if node.op == "nn.batch_norm" and _is_known(graph, node):
            source = makers.get(node.operands[0])
            if source is not None and _absorbs(graph, source, consumers):
                absorbed[source.outputs[0]] = node

    def replace(new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
        if node.op == "nn.batch_norm" and _is_known(graph, node):
            scale, shift = _scale_and_shift(graph, node)
            value = new.translated(node.operands[0])
            column = [-1] + [1] * (len(value.type.shape) - 1 - node.attrs.get("axis", 1))
            if node.operands[0] not in absorbed:
                factor = new.constant(scale.reshape(column), "scale")
                value = new.call("multiply", value, factor, source=node.source)
            bias = new.constant(shift.reshape(column), "shift")
            return (new.call("add", value, bias, source=node.source),)
        norm = absorbed.get(node.outputs[0]) if node.outputs else None
        if norm is None:
            return None
        scale, _ = _scale_and_shift(graph, norm)
        weight = graph.constants[node.operands[1]]
        shape = [-1] + [1] * (weight.ndim - 1)
        scaled = new.constant((weight * scale.reshape(shape)).astype(weight.dtype), "scaled")
        return new.calls(
            node.op, (new.translated(node.operands[0]), scaled), node.attrs, (), node.source
        )

    return rewrite(graph, replace)


def _is_known(graph: Graph, norm: GraphNode) -> bool:
    return all(value in graph.constants for value in norm.operands[1:])


def _absorbs(graph: Graph, node: GraphNode, consumers: dict[GraphValue, list[GraphNode]]) -> bool:
    """A convolution of known weights whose result only the norm reads, channels second."""
    return (
        node.op in ("nn.conv1d", "nn.conv2d", "nn.conv3d")
        and node.attrs.get("data_layout", "NC").startswith("NC")
        and node.operands[1] in graph.constants
        and len(consumers[node.outputs[0]]) == 1
        and node.outputs[0] not in graph.outputs
    )


def _scale_and_shift(graph: Graph, norm: GraphNode) -> tuple[Array, Array]:
    gamma, beta, mean, variance = (
        np.asarray(graph.constants[value], np.float64) for value in norm.operands[1:]
    )
    scale = gamma / np.sqrt(variance + norm.attrs.get("epsilon", 1e-5))
    dtype = graph.constants[norm.operands[1]].dtype
    return scale.astype(dtype), (beta - mean * scale).astype(dtype)
