"""Graphs in NumPy: an interpreter, and the backend `test.numpy` made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilewright.byoc import ExternalFunction, ExternalPart, external_backends, prepare_node
from tilewright.graph import Graph, GraphNode, GraphValue, parse_graph
from tilewright.graph.graph import Array

FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "negative": np.negative,
    "tanh": np.tanh, "nn.relu": lambda x: np.maximum(x, 0), "abs": np.abs,
}  # fmt: skip


def evaluate(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a graph."""
    values: dict[GraphValue, Array] = {**dict(graph.constants)}
    values.update(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        made = _evaluated(node, values, graph.constants)
        values.update(zip(node.outputs, made, strict=True))
    return [values[value] for value in graph.outputs]


def _evaluated(
    node: GraphNode, values: Mapping[GraphValue, Array], constants: Mapping[GraphValue, Array]
) -> Sequence[Array]:
    if node.op == "external":
        part = prepare_node(node, constants)
        return part.function([values[value] for value in part.inputs])
    return [FUNCTIONS[node.op](*(values[value] for value in node.operands))]


@external_backends.register("test.numpy")
def run_in_numpy(part: ExternalPart) -> ExternalFunction:
    """All inputs, known or not, in their order."""
    graph = parse_graph(part.program)

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        given = iter(arrays)
        count = len(part.inputs)
        inputs = [part.constants[n] if n in part.constants else next(given) for n in range(count)]
        return evaluate(graph, inputs)

    return run
