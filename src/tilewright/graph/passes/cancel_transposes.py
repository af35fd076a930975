"""Transpositions that undo each other, or move nothing but axes of one element, cost nothing."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.matching import axes_of
from tilewright.graph.rewriting import Rewriting


def cancel_transposes(graph: Graph) -> Graph:
    """The graph with two transpositions in a row as one, or as none."""
    return _Cancelling(graph).run(_replaced)


class _Cancelling(Rewriting):
    """Knows which new values are transpositions, and of what."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.turned: dict[GraphValue, tuple[GraphValue, list[int]]] = {}


def _replaced(graph: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
    assert isinstance(graph, _Cancelling)
    if node.op not in ("transpose", "layout_transform"):
        return None
    value, axes = graph.translated(node.operands[0]), list(axes_of(node))
    if value in graph.turned:
        value, before = graph.turned[value]
        axes = [before[axis] for axis in axes]
    if axes == [*range(len(axes))]:
        return (value,)
    shape = value.type.shape
    if _moves_nothing(shape, axes):
        return (graph.call("reshape", value, newshape=[shape[axis] for axis in axes]),)
    made = graph.call(node.op, value, source=node.source, axes=axes)
    graph.turned[made] = (value, axes)
    return (made,)


def _moves_nothing(shape: Sequence[object], axes: Sequence[int]) -> bool:
    """True if the axes of more than one element stay in their order."""
    if not all(isinstance(extent, int) for extent in shape):
        return False
    kept = [axis for axis in axes if shape[axis] != 1]
    return kept == sorted(kept)
