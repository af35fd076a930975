"""Making graphs call by call, with types inferred and names kept apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.graph.graph import Array, Graph, GraphNode, GraphValue, TensorType
from tilewright.graph.operator import result_types
from tilewright.support.names import NameSupply, as_identifier


class GraphBuilder:
    """A graph that grows at its end."""

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.inputs: list[GraphValue] = []
        self.nodes: list[GraphNode] = []
        self.constants: dict[GraphValue, Array] = {}
        self._names = NameSupply()

    def input(self, name: str, kind: TensorType) -> GraphValue:
        """One more input."""
        value = GraphValue(self._fresh(name), kind)
        self.inputs.append(value)
        return value

    def constant(self, array: Array, name: str = "c") -> GraphValue:
        """A value that is known."""
        array = np.asarray(array)
        value = GraphValue(self._fresh(name), TensorType(array.shape, array.dtype.name))
        self.constants[value] = array
        return value

    def calls(
        self,
        op: str,
        inputs: Sequence[GraphValue | None],
        attrs: Mapping[str, Any] | None = None,
        names: Sequence[str] = (),
        source: str = "",
    ) -> tuple[GraphValue, ...]:
        """The results of an operator."""
        attrs = {} if attrs is None else attrs
        types = result_types(op, [None if v is None else v.type for v in inputs], attrs)
        base = op.rpartition(".")[2]
        outputs = tuple(
            GraphValue(self._fresh(names[n] if n < len(names) else base), kind)
            for n, kind in enumerate(types)
        )
        self.nodes.append(GraphNode(op, tuple(inputs), outputs, attrs, source))
        return outputs

    def call(
        self, op: str, *inputs: GraphValue | None, source: str = "", **attrs: Any
    ) -> GraphValue:
        """The only result of an operator."""
        (output,) = self.calls(op, inputs, attrs, source=source)
        return output

    def graph(self, outputs: Sequence[GraphValue]) -> Graph:
        """What was built so far."""
        return Graph(
            self.name, tuple(self.inputs), tuple(outputs), tuple(self.nodes), dict(self.constants)
        )

    def _fresh(self, name: str) -> str:
        return self._names.fresh(as_identifier(name))
