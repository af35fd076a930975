"""Transposes that only move axes of extent 1 are reshapes, which cost nothing."""

from __future__ import annotations

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.rewriting import Rewriting, rewrite


def unit_transposes(graph: Graph) -> Graph:
    """The graph with reshapes in place of transposes that leave the order of elements alone."""
    return rewrite(graph, _replaced)


def _replaced(new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
    if node.op != "transpose" or not node.operands[0].type.is_static:
        return None
    extents = node.operands[0].type.extents
    axes = node.attrs.get("axes") or [*reversed(range(len(extents)))]
    moved = [axis for axis in axes if extents[axis] != 1]
    if moved != sorted(moved):
        return None
    value, shape = new.translated(node.operands[0]), list(node.outputs[0].type.extents)
    return (new.call("reshape", value, source=node.source, newshape=shape),)
