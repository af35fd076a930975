"""The passes that make a graph ready for kernels of a GPU."""

from __future__ import annotations

from tilewright.graph.graph import Graph
from tilewright.graph.passes.cancel_transposes import cancel_transposes
from tilewright.graph.passes.fold_constants import fold_constants
from tilewright.graph.passes.merge_equal_nodes import merge_equal_nodes
from tilewright.graph.passes.pipeline import passes_with, simplify
from tilewright.graph.passes.split_attention import rows_for_gpu, split_attention

_PASSES = (
    *passes_with(rows_for_gpu),
    merge_equal_nodes,
    split_attention,
    cancel_transposes,
    fold_constants,
)


def simplify_for_gpu(graph: Graph) -> Graph:
    """The same results from fewer nodes, of operators that tensor cores can run."""
    return simplify(graph, _PASSES)
