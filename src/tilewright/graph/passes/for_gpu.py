"""The passes that make a graph ready for kernels of a GPU."""

from __future__ import annotations

from tilewright.graph.graph import Graph
from tilewright.graph.passes.fold_constants import fold_constants
from tilewright.graph.passes.merge_equal_nodes import merge_equal_nodes
from tilewright.graph.passes.pipeline import simplify
from tilewright.graph.passes.split_attention import split_attention
from tilewright.graph.passes.unit_transposes import unit_transposes

_PASSES = (simplify, merge_equal_nodes, split_attention, unit_transposes, fold_constants)


def simplify_for_gpu(graph: Graph) -> Graph:
    """The same results from fewer nodes, of operators that tensor cores can run."""
    for step in _PASSES:
        graph = step(graph)
    return graph
