"""Transpositions that undo each other, or move nothing but axes of one element, cost nothing.

A reshape between two of them that joins neighbouring axes is no obstacle: patches of an image with
channels last are rows already, though models write them as channels first, flattened and turned.
"""

from __future__ import annotations

import math
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
    if node.op == "reshape":
        return _joined_axes(graph, node)
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


def _joined_axes(graph: _Cancelling, node: GraphNode) -> tuple[GraphValue, ...] | None:
    """A reshape of a transposition that could come before it, which the next one is to know."""
    value, shape = graph.translated(node.operands[0]), node.outputs[0].type.shape
    groups = _groups(value.type.shape, shape)
    if value not in graph.turned or groups is None:
        return None
    before, axes = graph.turned[value]
    parts = [[axes[axis] for axis in group] for group in groups]
    if any(part != [*range(part[0], part[-1] + 1)] for part in parts):
        return None
    order = sorted(range(len(parts)), key=lambda n: parts[n])
    joined = graph.call("reshape", before, newshape=[shape[n] for n in order])
    made = graph.call("reshape", value, source=node.source, newshape=list(shape))
    graph.turned[made] = (joined, [order.index(n) for n in range(len(parts))])
    return (made,)


def _groups(old: Sequence[object], new: Sequence[object]) -> list[list[int]] | None:
    """The axes that each new one consists of; None if one is split, or not known."""
    extents = [extent for extent in old if isinstance(extent, int)]
    if len(extents) != len(old):
        return None
    groups, axis = [], 0
    for extent in new:
        group, size = [axis], math.prod(extents[axis : axis + 1])
        while size != extent and axis + len(group) < len(extents):
            group.append(axis + len(group))
            size *= extents[group[-1]]
        if size != extent or axis >= len(extents):
            return None
        groups.append(group)
        axis += len(group)
    return groups if axis == len(extents) else None


def _moves_nothing(shape: Sequence[object], axes: Sequence[int]) -> bool:
    """True if the axes of more than one element stay in their order."""
    if not all(isinstance(extent, int) for extent in shape):
        return False
    kept = [axis for axis in axes if shape[axis] != 1]
    return kept == sorted(kept)
