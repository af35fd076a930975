"""Reshapes move behind what works on elements or rows, so that products keep their consumers.

A linear layer of three axes is a product of two, with a reshape before and behind it. The reshape
stands between the product and its bias or activation, which could not fuse then. An operator that
treats all rows alike gives the same on the flat form; the reshape comes after it, where it meets
the next one and vanishes.
"""

from __future__ import annotations

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.operators.elementwise import ELEMENTWISE
from tilewright.graph.rewriting import Rewriting

# Operators on rows: their only axis is the last one.
_ROWS = frozenset({"nn.layer_norm", "nn.rms_norm", "nn.softmax", "nn.log_softmax"})


def sink_reshapes(graph: Graph) -> Graph:
    """The same graph with reshapes as late as they can be."""
    return _Sinking(graph).run(_replaced)


class _Sinking(Rewriting):
    """Knows which new values are reshapes of others that keep the last axis."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.flat: dict[GraphValue, GraphValue] = {}

    def reshaped(self, value: GraphValue, like: GraphValue, source: str) -> GraphValue:
        """A value in the shape of another one; what it was made of is remembered."""
        if value.type.shape == like.type.shape:
            return value
        made = self.call("reshape", value, source=source, newshape=list(like.type.shape))
        if _keeps_rows(value, made):
            self.flat[made] = value
        return made


def _keeps_rows(a: GraphValue, b: GraphValue) -> bool:
    if not a.type.shape or not b.type.shape:
        return False
    first, second = a.type.shape[-1], b.type.shape[-1]
    return first is second or (isinstance(first, int) and first == second)


def _replaced(graph: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
    assert isinstance(graph, _Sinking)
    if node.op == "reshape":
        value = graph.translated(node.operands[0])
        while value in graph.flat:
            value = graph.flat[value]
        return (graph.reshaped(value, node.outputs[0], node.source),)
    if node.op in ELEMENTWISE or (node.op in _ROWS and _is_over_rows(node)):
        return _on_flat(graph, node)
    return None


def _is_over_rows(node: GraphNode) -> bool:
    rank = len(node.operands[0].type.shape)
    axes = node.attrs.get("axis", -1)
    return [axis % rank for axis in ([axes] if isinstance(axes, int) else axes)] == [rank - 1]


def _on_flat(graph: _Sinking, node: GraphNode) -> tuple[GraphValue, ...] | None:
    """The node on the flat form of its inputs, if they have one in common."""
    inputs = [graph.translated(value) for value in node.operands]
    whole = node.outputs[0].type.shape  # an operand that is stretched has another form
    forms = {
        graph.flat[value].type.shape
        for value in inputs
        if value in graph.flat and value.type.shape == whole
    }
    if len(forms) != 1 or len(inputs) != len(node.inputs):
        return None
    (shape,) = forms
    flat = [_flat_operand(graph, value, node.outputs[0], shape) for value in inputs]
    if any(value is None for value in flat):
        return None
    attrs = dict(node.attrs)
    if "axis" in attrs:
        attrs["axis"] = -1 if isinstance(attrs["axis"], int) else [len(shape) - 1]
    (made,) = graph.calls(node.op, flat, attrs, (), node.source)
    if made.type.shape != shape:
        return None
    return (graph.reshaped(made, node.outputs[0], node.source),)


def _flat_operand(
    graph: _Sinking, value: GraphValue, result: GraphValue, shape: tuple[object, ...]
) -> GraphValue | None:
    extents = value.type.shape
    is_whole = extents == result.type.shape
    if is_whole and value in graph.flat and graph.flat[value].type.shape == shape:
        return graph.flat[value]
    if len(extents) <= 1:
        return value
    if all(extent == 1 for extent in extents[:-1]):
        return graph.call("reshape", value, newshape=[extents[-1]])
    if is_whole:
        return graph.call("reshape", value, newshape=list(shape))
    return None
