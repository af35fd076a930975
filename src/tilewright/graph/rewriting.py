"""Making a graph anew, node by node, with some nodes replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tilewright.graph.builder import GraphBuilder
from tilewright.graph.graph import Array, Graph, GraphNode, GraphValue

# What takes the place of a node: values for its outputs; None keeps the node.
Replace = Callable[["Rewriting", GraphNode], "tuple[GraphValue, ...] | None"]


class Rewriting(GraphBuilder):
    """A graph that is made of another one, value by value."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.name)
        self.old = graph
        self.consumers = graph.consumers()
        self._new: dict[GraphValue, GraphValue] = {}
        for value in graph.inputs:
            self._new[value] = self.input(value.name, value.type)

    def known(self, value: GraphValue | None) -> Array | None:
        """The numbers of a new value, if it is a constant."""
        return None if value is None else self.constants.get(value)

    def translated(self, value: GraphValue) -> GraphValue:
        """The new value for an old one; constants come along when somebody asks for them."""
        if value not in self._new:
            self._new[value] = self.constant(self.old.constants[value], value.name)
        return self._new[value]

    def inputs_of(self, node: GraphNode) -> tuple[GraphValue | None, ...]:
        """The new values for the inputs of an old node."""
        return tuple(None if v is None else self.translated(v) for v in node.inputs)

    def run(self, replaced: Replace) -> Graph:
        """All nodes, each replaced or copied."""
        for node in self.old.nodes:
            made = replaced(self, node)
            if made is None:
                names = [value.name for value in node.outputs]
                inputs = self.inputs_of(node)
                made = self.calls(node.op, inputs, node.attrs, names, node.source)
            if made:  # nothing: the values are made when somebody asks for them
                self._new.update(zip(node.outputs, made, strict=True))
        graph = self.graph([self.translated(v) for v in self.old.outputs])
        return without_dead_nodes(with_names_of(self.old, graph))


def rewrite(graph: Graph, replaced: Replace) -> Graph:
    """A graph with some nodes replaced, and without those that nobody needs any more."""
    return Rewriting(graph).run(replaced)


def with_names_of(old: Graph, graph: Graph) -> Graph:
    """A graph with inputs and outputs called as those of the one that it was made of."""
    return replace(graph, input_names=old.input_names, output_names=old.output_names)


def without_dead_nodes(graph: Graph) -> Graph:
    """Only what outputs are made of."""
    needed = set(graph.outputs)
    kept: list[GraphNode] = []
    for node in reversed(graph.nodes):
        if needed & set(node.outputs):
            kept.append(node)
            needed.update(node.operands)
    constants = _chosen(graph.constants, needed)
    return replace(graph, nodes=tuple(reversed(kept)), constants=constants)


def _chosen(
    constants: Mapping[GraphValue, Array], needed: Iterable[GraphValue]
) -> dict[GraphValue, Array]:
    wanted = set(needed)
    return {value: array for value, array in constants.items() if value in wanted}
