"""The passes that make an imported graph ready for kernels."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.graph.graph import Graph
from tilewright.graph.passes.cancel_transposes import cancel_transposes
from tilewright.graph.passes.channels_last import channels_last
from tilewright.graph.passes.find_attention import find_attention
from tilewright.graph.passes.fold_constants import fold_constants
from tilewright.graph.passes.fold_scales import fold_scales
from tilewright.graph.passes.merge_projections import merge_projections
from tilewright.graph.passes.quantized import integer_operators
from tilewright.graph.passes.sink_reshapes import sink_reshapes
from tilewright.graph.passes.split_heads import split_heads

Pass = Callable[[Graph], Graph]

PASSES: tuple[Pass, ...] = (
    fold_constants,
    fold_scales,
    fold_constants,
    integer_operators,
    find_attention,
    cancel_transposes,
    split_heads,
    cancel_transposes,
    merge_projections,
    sink_reshapes,
    channels_last,
    cancel_transposes,
    fold_constants,
)


def simplify(graph: Graph) -> Graph:
    """The same results from fewer nodes."""
    for step in PASSES:
        graph = step(graph)
    return graph
