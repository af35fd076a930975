"""Nodes that compute nothing: their result is their input, seen in another shape."""

from __future__ import annotations

from tilewright.graph.graph import GraphNode

_VIEWS = frozenset({"reshape", "squeeze", "expand_dims", "nn.flatten", "identity"})


def is_view(node: GraphNode) -> bool:
    """True if the result has the elements of the first input in the same order."""
    return node.op in _VIEWS
