"""The passes that make an imported graph ready for kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.graph.graph import Graph
from tilewright.graph.passes.cancel_transposes import cancel_transposes
from tilewright.graph.passes.channels_last import channels_last
from tilewright.graph.passes.find_attention import find_attention
from tilewright.graph.passes.fold_constants import fold_constants
from tilewright.graph.passes.fold_limits import fold_limits
from tilewright.graph.passes.fold_padding import fold_padding
from tilewright.graph.passes.fold_scales import fold_scales
from tilewright.graph.passes.merge_equal_nodes import merge_equal_nodes
from tilewright.graph.passes.merge_projections import merge_projections
from tilewright.graph.passes.quantized import integer_operators
from tilewright.graph.passes.simplify_arithmetic import simplify_arithmetic
from tilewright.graph.passes.sink_reshapes import sink_reshapes
from tilewright.graph.passes.split_attention import rows_for_gpu, split_attention
from tilewright.graph.passes.split_heads import split_heads

Pass = Callable[[Graph], Graph]

# What was imported, in fewer nodes.
_SIMPLER: tuple[Pass, ...] = (
    fold_constants,
    fold_padding,
    fold_scales,
    fold_constants,
    integer_operators,
    simplify_arithmetic,
    fold_limits,
    find_attention,
    cancel_transposes,
)
_LAYOUTS: tuple[Pass, ...] = (sink_reshapes, channels_last, cancel_transposes, fold_constants)


def _passes_with(split: Pass) -> tuple[Pass, ...]:
    """All passes; `split` finds the attention that a target has kernels for."""
    return (*_SIMPLER, split, cancel_transposes, merge_projections, *_LAYOUTS)


PASSES = _passes_with(split_heads)
GPU_PASSES = (
    *_passes_with(rows_for_gpu),
    merge_equal_nodes,
    split_attention,  # into operators that tensor cores can run
    cancel_transposes,
    fold_constants,
)


def simplify(graph: Graph, passes: Sequence[Pass] = PASSES) -> Graph:
    """The same results from fewer nodes."""
    for step in passes:
        graph = step(graph)
    return graph
