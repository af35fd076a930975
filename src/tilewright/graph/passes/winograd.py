"""Convolutions that Winograd's tiles could compute, and graphs in which they do.

Which of them should is a question of time, not of the graph: see `model/alternatives.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.rewriting import Rewriting, rewrite

CONV2D, WINOGRAD = "nn.conv2d", "nn.winograd_conv2d"
# With fewer channels there is nothing to save: transforms cost as much as products.
FEWEST_CHANNELS = 16


def winograd_candidates(graph: Graph) -> list[GraphNode]:
    """The convolutions of known 3x3 windows that move by one, of single precision, in NHWC."""
    return [node for node in graph.nodes if node.op == CONV2D and _is_candidate(graph, node)]


def in_tiles(node: GraphNode, size: int) -> GraphNode:
    """A convolution in tiles of `size` outputs along each axis; 0: as it is."""
    if not size:
        return node
    attrs = {"padding": node.attrs.get("padding", 0), "tile_size": size}
    return GraphNode(WINOGRAD, node.inputs, node.outputs, attrs, node.source)


def with_winograd(graph: Graph, tiles: Mapping[GraphValue, int]) -> Graph:
    """The graph with some convolutions, by their results, in tiles."""

    def replaced(new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
        made = in_tiles(node, tiles.get(node.outputs[0], 0) if node.outputs else 0)
        if made is node:
            return None
        names = [value.name for value in node.outputs]
        return new.calls(made.op, new.inputs_of(node), made.attrs, names, node.source)

    return rewrite(graph, replaced) if any(tiles.values()) else graph


def _is_candidate(graph: Graph, node: GraphNode) -> bool:
    data, weight = node.operands
    attrs = node.attrs
    return (
        attrs.get("data_layout") == "NHWC"
        and attrs.get("groups", 1) == 1
        and all(is_one_everywhere(attrs.get(name, 1)) for name in ("strides", "dilation"))
        and attrs.get("out_dtype") in (None, "float32")
        and data.type.dtype == weight.type.dtype == "float32"
        and data.type.is_static
        and weight in graph.constants
        and weight.type.shape[:2] == (3, 3)
        and min(weight.type.extents[2:]) >= FEWEST_CHANNELS
    )


def is_one_everywhere(steps: Any) -> bool:
    """True for strides or dilations that are one along each axis."""
    return set(steps if isinstance(steps, list | tuple) else [steps]) == {1}
