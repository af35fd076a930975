"""Channels last inside the graph: windows read them side by side, and vectors fill with them.

A value of four axes gets a twin whose channels come last, made by convolutions and pools, and
passed on by what works on elements. A transposition appears only where somebody needs a form that
was not made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.operators.elementwise import ELEMENTWISE
from tilewright.graph.rewriting import Rewriting

_TO_LAST, _TO_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]


def channels_last(graph: Graph) -> Graph:
    """The same graph with convolutions and pools of images in NHWC."""
    return _ChannelsLast(graph).run(_replaced)


class _ChannelsLast(Rewriting):
    """Old values have a new one, a twin with channels last, or both."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._twins: dict[GraphValue, GraphValue] = {}

    def translated(self, value: GraphValue) -> GraphValue:
        """The value with channels first: as it is, or transposed from its twin."""
        if value not in self._new and value in self._twins:
            self._new[value] = self.call("transpose", self._twins[value], axes=_TO_FIRST)
        return super().translated(value)

    def has_twin(self, value: GraphValue) -> bool:
        """True if the form with channels last exists."""
        return value in self._twins

    def twin(self, value: GraphValue) -> GraphValue:
        """The value with channels last: as it is, or transposed."""
        if value not in self._twins:
            array = self.old.constants.get(value)
            if array is not None and array.ndim == 4:
                turned = np.ascontiguousarray(np.transpose(array, _TO_LAST))
                self._twins[value] = self.constant(turned, value.name)
            else:
                self._twins[value] = self.call("transpose", self.translated(value), axes=_TO_LAST)
        return self._twins[value]

    def stretched_twin(self, value: GraphValue) -> GraphValue | None:
        """An operand of an elementwise operator, for results with channels last."""
        rank = len(value.type.shape)
        if rank == 4:
            return self.twin(value)
        array = self.old.constants.get(value)
        if rank == 0:
            return self.translated(value)
        if array is None or rank > 4:
            return None
        filled = np.asarray(array).reshape([1] * (4 - rank) + list(array.shape))
        return self.constant(np.ascontiguousarray(np.transpose(filled, _TO_LAST)), value.name)

    def run_last(
        self, node: GraphNode, inputs: Sequence[GraphValue | None], attrs: dict[str, Any]
    ) -> None:
        """Make the twin of a node's result."""
        (self._twins[node.outputs[0]],) = self.calls(node.op, inputs, attrs, (), node.source)


def _replaced(graph: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
    assert isinstance(graph, _ChannelsLast)
    made = _RULES.get(node.op, _elementwise if node.op in ELEMENTWISE else None)
    if made is not None and len(node.outputs[0].type.shape) == 4 and made(graph, node):
        return ()
    return None


def _conv2d(graph: _ChannelsLast, node: GraphNode) -> bool:
    data, weight, *others = node.operands  # others are numbers
    if node.attrs.get("data_layout", "NCHW") != "NCHW" or weight not in graph.old.constants:
        return False
    array = graph.old.constants[weight]
    groups = node.attrs.get("groups", 1)
    is_depthwise = groups > 1 and array.shape[1] == 1 and groups == data.type.shape[1]
    if groups > 1 and not is_depthwise:
        return False
    turned = graph.constant(np.ascontiguousarray(array.transpose(2, 3, 1, 0)), weight.name)
    inputs = (graph.twin(data), turned, *map(graph.translated, others))
    graph.run_last(node, inputs, {**node.attrs, "data_layout": "NHWC"})
    return True


def _pool2d(graph: _ChannelsLast, node: GraphNode) -> bool:
    if node.attrs.get("layout", "NCHW") != "NCHW" or not graph.has_twin(node.operands[0]):
        return False
    graph.run_last(node, (graph.twin(node.operands[0]),), {**node.attrs, "layout": "NHWC"})
    return True


def _concatenate(graph: _ChannelsLast, node: GraphNode) -> bool:
    if not all(map(graph.has_twin, node.operands)):
        return False
    axis = _TO_LAST.index(node.attrs.get("axis", 0) % 4)
    graph.run_last(node, [graph.twin(value) for value in node.operands], {"axis": axis})
    return True


def _mean(graph: _ChannelsLast, node: GraphNode) -> bool:
    axes = node.attrs.get("axis")
    if axes is None or not node.attrs.get("keepdims") or not graph.has_twin(node.operands[0]):
        return False
    turned = sorted(
        _TO_LAST.index(axis % 4) for axis in ([axes] if isinstance(axes, int) else axes)
    )
    data, *others = node.operands  # others are numbers
    inputs = (graph.twin(data), *map(graph.translated, others))
    graph.run_last(node, inputs, {**node.attrs, "axis": turned})
    return True


def _elementwise(graph: _ChannelsLast, node: GraphNode) -> bool:
    if not any(map(graph.has_twin, node.operands)):
        return False
    inputs = [graph.stretched_twin(value) for value in node.operands]
    if len(node.operands) != len(node.inputs) or any(value is None for value in inputs):
        return False
    graph.run_last(node, inputs, dict(node.attrs))
    return True


_RULES = {
    "nn.conv2d": _conv2d, "nn.pool2d": _pool2d, "concatenate": _concatenate,
    "mean": _mean, "max": _mean, "sum": _mean, "qnn.conv2d": _conv2d, "qnn.mean": _mean,
}  # fmt: skip
