"""External nodes of a graph among its kernels, in an order in which all can run."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.byoc import prepare_node
from tilewright.graph.external import is_external
from tilewright.graph.graph import Graph, GraphValue
from tilewright.model.external import ExternalCall
from tilewright.model.kernels import KernelCall


def with_external_calls(
    graph: Graph, calls: Sequence[KernelCall | ExternalCall]
) -> list[KernelCall | ExternalCall]:
    """Calls, and between them those of nodes that others compute, unless they are there already."""
    position = {value: n for n, node in enumerate(graph.nodes) for value in node.outputs}
    made = {value for call in calls for value in _outputs(call)}
    last = len(graph.nodes)  # for kernels whose results nobody reads
    placed = [(max((position[v] for v in _outputs(call)), default=last), call) for call in calls]
    for node in filter(is_external, graph.nodes):
        if not made.issuperset(node.outputs):
            part = prepare_node(node, graph.constants)
            call = ExternalCall(part.name, part.function, part.inputs, part.outputs)
            placed.append((position[node.outputs[0]], call))
    return [call for _, call in sorted(placed, key=lambda pair: pair[0])]


def _outputs(call: KernelCall | ExternalCall) -> tuple[GraphValue, ...]:
    return call.outputs if isinstance(call, ExternalCall) else call.group.outputs
