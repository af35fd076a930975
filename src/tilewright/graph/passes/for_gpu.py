"""The passes that make a graph ready for kernels of a GPU."""

from __future__ import annotations

from tilewright.graph.graph import Graph
from tilewright.graph.passes.cancel_transposes import cancel_transposes
from tilewright.graph.passes.fold_constants import fold_constants
from tilewright.graph.passes.merge_equal_nodes import merge_equal_nodes
from tilewright.graph.passes.merge_projections import merge_projections
from tilewright.graph.passes.pipeline import PASSES
from tilewright.graph.passes.split_attention import split_attention
from tilewright.graph.passes.split_heads import split_heads

# Attention takes other forms here, with projections of its own.
_OF_CPUS = (split_heads, merge_projections)
_PASSES = (
    *(step for step in PASSES if step not in _OF_CPUS),
    merge_equal_nodes,
    split_attention,
    cancel_transposes,
    fold_constants,
)


def simplify_for_gpu(graph: Graph) -> Graph:
    """The same results from fewer nodes, of operators that tensor cores can run."""
    for step in _PASSES:
        graph = step(graph)
    return graph
