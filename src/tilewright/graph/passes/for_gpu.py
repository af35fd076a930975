"""The passes that make a graph ready for kernels of a GPU."""

from __future__ import annotations

from tilewright.graph.graph import Graph
from tilewright.graph.passes.fold_constants import fold_constants
from tilewright.graph.passes.merge_equal_nodes import merge_equal_nodes
from tilewright.graph.passes.pipeline import PASSES_WITHOUT_ATTENTION, simplify
from tilewright.graph.passes.split_attention import split_attention
from tilewright.graph.passes.unit_transposes import unit_transposes

_PASSES = (
    *PASSES_WITHOUT_ATTENTION, merge_equal_nodes, split_attention, unit_transposes, fold_constants,
)  # fmt: skip


def simplify_for_gpu(graph: Graph) -> Graph:
    """The same results from fewer nodes, of operators that tensor cores can run."""
    return simplify(graph, _PASSES)
