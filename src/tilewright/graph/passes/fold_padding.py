"""Zeros that are put around an image before a convolution become padding of the convolution.

Exporters write them as a node of their own, above all where the sides differ. As padding they cost
no pass over the image, and Winograd's tiles know what to do with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.matching import Matcher
from tilewright.graph.rewriting import Rewriting, rewrite

CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")


def fold_padding(graph: Graph) -> Graph:
    """The graph without padded copies of what convolutions read."""
    matcher = Matcher(graph)

    def replace(new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
        pad = matcher.maker(node.operands[0], "nn.pad") if node.op in CONVOLUTIONS else None
        sides = None if pad is None else _joined(node, pad)
        if pad is None or sides is None:
            return None
        image, weight = new.translated(pad.operands[0]), new.translated(node.operands[1])
        attrs = {**node.attrs, "padding": sides}
        names = [value.name for value in node.outputs]
        return new.calls(node.op, (image, weight), attrs, names, node.source)

    return rewrite(graph, replace)


def _joined(conv: GraphNode, pad: GraphNode) -> list[int] | None:
    """The padding of both; None if the zeros are none, or are not around the image alone."""
    before, after = pad.attrs.get("pad_before", ()), pad.attrs.get("pad_after")
    after = before if after is None else after
    sides = [*before, *after]
    own = padding_of(conv)
    if own is None or not _are_counts(sides) or pad.attrs.get("pad_value", 0.0) != 0:
        return None
    if not conv.attrs.get("data_layout", "NC").startswith("NC") or len(pad.operands) != 1:
        return None
    if any((*before[:2], *after[:2])):
        return None  # more images or channels
    more = [*before[2:], *after[2:]]
    return [a + b for a, b in zip(own, more, strict=True)]


def _are_counts(sides: Sequence[object]) -> bool:
    return all(isinstance(side, int) and side >= 0 for side in sides)


def padding_of(conv: GraphNode) -> list[int] | None:
    """The zeros before each axis of an image, then those behind; None if they are not written."""
    rank = len(conv.operands[0].type.shape) - 2
    given = conv.attrs.get("padding", 0)
    if given == "VALID":
        given = 0
    sides = [given] * rank if isinstance(given, int) else list(given)
    if isinstance(given, str) or not _are_counts(sides):
        return None
    return sides * 2 if len(sides) == rank else sides
