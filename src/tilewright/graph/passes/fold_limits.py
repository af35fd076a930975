"""Limits that are known numbers become part of the operator: `clip` instead of two comparisons.

Frontends write `minimum(maximum(x, 0), 6)`. As arrays of one element, limits would be arguments of
kernels, which read them again for each element.
"""

from __future__ import annotations

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.matching import Matcher
from tilewright.graph.rewriting import Rewriting, rewrite
from tilewright.ir import DType


def fold_limits(graph: Graph) -> Graph:
    """The graph with `clip` where both limits are known."""
    matcher = Matcher(graph)

    def replace(new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
        upper = _limited(matcher, node, "minimum")
        inner = None if upper is None else matcher.only(upper[0], "maximum")
        lower = None if inner is None else _limited(matcher, inner, "maximum")
        if upper is None or lower is None or lower[1] > upper[1]:
            return None
        limits = {"a_min": lower[1], "a_max": upper[1]}
        return (new.call("clip", new.translated(lower[0]), source=node.source, **limits),)

    return rewrite(graph, replace)


def _limited(matcher: Matcher, node: GraphNode, op: str) -> tuple[GraphValue, float] | None:
    """What is limited, and the number; of floats, whose type it does not change."""
    found = matcher.with_scalar(node) if node.op == op else None
    if found is None or found[0].type != node.outputs[0].type:
        return None
    return found if DType(found[0].type.dtype).is_float else None
