"""Nodes that compute the same of the same values become one."""

from __future__ import annotations

import json

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.rewriting import Rewriting, rewrite


def merge_equal_nodes(graph: Graph) -> Graph:
    """The graph without nodes that repeat another one."""
    known: dict[tuple[object, ...], tuple[GraphValue, ...]] = {}

    def replace(new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
        inputs = new.inputs_of(node)
        key = (node.op, inputs, json.dumps(node.attrs, sort_keys=True))
        if key not in known:
            names = [value.name for value in node.outputs]
            known[key] = new.calls(node.op, inputs, node.attrs, names, node.source)
        return known[key]

    return rewrite(graph, replace)
