"""Questions of passes that look for patterns: who made a value, and does anyone else read it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.views import is_view


class Matcher:
    """The nodes behind the values of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._makers = graph.makers()
        self._consumers = graph.consumers()

    def maker(self, value: GraphValue | None, *ops: str) -> GraphNode | None:
        """The node that made a value, if it is one of these operators."""
        node = None if value is None else self._makers.get(value)
        return node if node is not None and node.op in ops else None

    def only(self, value: GraphValue | None, *ops: str) -> GraphNode | None:
        """The same, if nobody but the asker reads the value."""
        return self.maker(value, *ops) if self.is_read_once(value) else None

    def is_read_once(self, value: GraphValue | None) -> bool:
        """True if one node reads a value, and it is no output."""
        return (
            value is not None
            and len(self._consumers[value]) == 1
            and value not in self._graph.outputs
        )

    def scalar(self, value: GraphValue | None) -> float | None:
        """The number of a constant that has only one."""
        array = None if value is None else self._graph.constants.get(value)
        if array is None or array.size != 1 or array.dtype.kind not in "fiu":
            return None
        return float(np.asarray(array, np.float64).reshape(()))

    def without_views(self, value: GraphValue, *, once: bool = False) -> GraphValue:
        """What a value is a view of; only through those that nobody else reads, if `once`."""
        node = self._makers.get(value)
        while node is not None and is_view(node) and (not once or self.is_read_once(value)):
            value = node.operands[0]
            node = self._makers.get(value)
        return value

    def with_scalar(self, node: GraphNode) -> tuple[GraphValue, float] | None:
        """The operand and the number of `x * 2` and `2 * x`; of `x / 2` only if x comes first."""
        first, second = node.operands
        for value, number in ((first, self.scalar(second)), (second, self.scalar(first))):
            if number is not None and (value is first or node.op != "divide"):
                return value, number
        return None


def axes_of(node: GraphNode) -> Sequence[int]:
    """The axes of a transposition, counted from the front."""
    rank = len(node.operands[0].type.shape)
    axes = node.attrs.get("axes")
    return [*range(rank)][::-1] if axes is None else [axis % rank for axis in axes]
