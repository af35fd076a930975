"""The share of a model that our kernels compute, and what is left to others, in words."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.graph import Graph, GraphNode
from tilewright.graph.external import is_external
from tilewright.graph.fusion import FusedGroup
from tilewright.graph.lowering import lower_group
from tilewright.graph.rewriting import without_dead_nodes
from tilewright.graph.views import is_view
from tilewright.schedule.analysis.flops import flop_of

Shape = tuple[int, ...]


class PartialImportWarning(UserWarning):
    """Some operators of a model are computed by others, slower than kernels of ours would."""


@dataclass(frozen=True)
class Coverage:
    """Arithmetic of nodes that are ours, and of those that are not."""

    own: float
    external: float

    @property
    def share(self) -> float:
        """Of our nodes; 1 if there is nothing to compute."""
        total = self.own + self.external
        return self.own / total if total else 1.0

    def __str__(self) -> str:
        total = self.own + self.external
        unit, scale = next((u, s) for u, s in _UNITS if total >= s or s == 1)
        return f"the rest has {100 * self.share:.3g} % of {total / scale:.3g} {unit}"


_UNITS = (("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3), ("FLOP", 1.0))


def coverage_of(graph: Graph, flop_of_external: Callable[[GraphNode], float]) -> Coverage:
    """What share of a graph's arithmetic is ours."""
    own = external = 0.0
    for node in without_dead_nodes(graph).nodes:
        if is_external(node):
            external += flop_of_external(node)
        elif not is_view(node):
            own += _flop_of_node(node)
    return Coverage(own, external)


def _flop_of_node(node: GraphNode) -> float:
    inputs = tuple(dict.fromkeys(node.operands))
    return flop_of(lower_group(FusedGroup((node,), inputs, node.outputs)))


def flop_by_name(op: str, node: GraphNode) -> float:
    """The arithmetic of an operator of which only name and types are known.

    Products, convolutions and recurrent layers go by the names that they have everywhere; anything
    else counts an operation for each element that goes in or comes out.
    """
    shapes = [value.type.extents for value in node.operands]
    results = [value.type.extents for value in node.outputs]
    for pattern, count in _FAMILIES:
        if re.search(pattern, op, re.IGNORECASE):
            try:
                return float(count(shapes, results[0]))
            except IndexError:  # it has the name, and other operands
                break
    return float(sum(map(math.prod, [*shapes, *results])))


def _product(shapes: Sequence[Shape], result: Shape) -> int:
    return 2 * math.prod(result) * shapes[0][-1]


def _convolution(shapes: Sequence[Shape], result: Shape) -> int:
    return 2 * math.prod(result) * math.prod(shapes[1][1:])


def _recurrent(shapes: Sequence[Shape], result: Shape) -> int:
    steps = math.prod(shapes[0][:2])
    return 2 * steps * sum(math.prod(shape) for shape in shapes[1:3])


_FAMILIES: tuple[tuple[str, Callable[[Sequence[Shape], Shape], int]], ...] = (
    (r"conv", _convolution),
    (r"lstm|gru|rnn", _recurrent),
    (r"mat_?mul|gemm|linear|\b[b]?mm\b", _product),
)


def listed(names: Mapping[str, Sequence[str]]) -> str:
    """Operators, how often they occur and where."""
    return "; ".join(
        f"{op} ({len(places)}: {', '.join(places[:3])}{', ...' if len(places) > 3 else ''})"
        for op, places in sorted(names.items())
    )


def warn_of_references(where: str, reasons: Mapping[str, str], coverage: Coverage) -> None:
    """One warning about everything that is not ours."""
    text = "; ".join(reasons.values())
    warnings.warn(f"computed {where}: {text}; {coverage}", PartialImportWarning, stacklevel=4)
