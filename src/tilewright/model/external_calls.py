"""External nodes of a graph among its kernels, in an order in which all can run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tilewright.byoc import prepare_node
from tilewright.graph.external import is_external
from tilewright.graph.fusion import FusedGroup
from tilewright.graph.graph import Graph
from tilewright.model.external import ExternalCall


class _GroupCall(Protocol):
    @property
    def group(self) -> FusedGroup: ...


CallT = TypeVar("CallT", bound=_GroupCall)


def with_external_calls(graph: Graph, calls: Sequence[CallT]) -> list[CallT | ExternalCall]:
    """Calls of kernels, and between them the nodes that others compute."""
    position = {node: number for number, node in enumerate(graph.nodes)}
    placed: list[tuple[int, CallT | ExternalCall]] = [
        (position[call.group.nodes[-1]], call) for call in calls
    ]
    for node in filter(is_external, graph.nodes):
        made = prepare_node(node, graph.constants)
        call = ExternalCall(made.name, made.function, made.inputs, made.outputs)
        placed.append((position[node], call))
    return [call for _, call in sorted(placed, key=lambda pair: pair[0])]
