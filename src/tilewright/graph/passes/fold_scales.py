"""Batch norms beside a convolution become part of its weights and bias.

A norm of known numbers is `x * scale + shift`. Behind a convolution the scale goes into the
filters, where it costs nothing, and the shift is a bias. Before one that pads nothing, or where
nothing is shifted, the scale goes into the channels of the filters, and what the filters make of
the shift is a bias. Norms that stand elsewhere become a product and a sum, which fuse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.graph.graph import Array, Graph, GraphNode, GraphValue
from tilewright.graph.passes.fold_padding import CONVOLUTIONS, padding_of
from tilewright.graph.rewriting import Rewriting, rewrite

_NORM = "nn.batch_norm"


def fold_scales(graph: Graph) -> Graph:
    """The graph without batch norms whose numbers are known."""
    return rewrite(graph, _Folding(graph).replaced)


@dataclass(frozen=True)
class _Scale:
    """What a norm does with each channel."""

    scale: Array
    shift: Array

    @staticmethod
    def of(graph: Graph, norm: GraphNode) -> _Scale:
        gamma, beta, mean, variance = (
            np.asarray(graph.constants[value], np.float64) for value in norm.operands[1:]
        )
        scale = gamma / np.sqrt(variance + norm.attrs.get("epsilon", 1e-5))
        dtype = graph.constants[norm.operands[1]].dtype
        return _Scale(scale.astype(dtype), (beta - mean * scale).astype(dtype))


class _Folding:
    """Which convolution takes in which norm."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._consumers = graph.consumers()
        makers = graph.makers()
        self._behind: dict[GraphValue, _Scale] = {}  # by what the convolution makes
        self._before: dict[GraphValue, _Scale] = {}  # by what it reads
        for node in graph.nodes:
            if not self._is_known(node):
                continue
            source, norm = makers.get(node.operands[0]), _Scale.of(graph, node)
            if source is not None and self._takes_from_behind(source):
                self._behind[source.outputs[0]] = norm
            elif self._is_taken_ahead(node, norm):
                self._before[node.outputs[0]] = norm

    def replaced(self, new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
        """What takes the place of a norm, or of a convolution beside one."""
        if self._is_known(node):
            value = new.translated(node.operands[0])
            return (value if node.outputs[0] in self._before else self._plain(new, node, value),)
        behind = self._behind.get(node.outputs[0]) if node.outputs else None
        before = self._before.get(node.operands[0]) if node.operands else None
        if behind is None and before is None:
            return None
        return self._convolution(new, node, behind, before)

    def _plain(self, new: Rewriting, node: GraphNode, value: GraphValue) -> GraphValue:
        """A product and a sum; only the sum if a convolution does the rest."""
        norm = self._behind.get(node.operands[0])
        column = [-1] + [1] * (len(value.type.shape) - 1 - node.attrs.get("axis", 1))
        if norm is None:
            norm = _Scale.of(self._graph, node)
            factor = new.constant(norm.scale.reshape(column), "scale")
            value = new.call("multiply", value, factor, source=node.source)
        bias = new.constant(norm.shift.reshape(column), "shift")
        return new.call("add", value, bias, source=node.source)

    def _convolution(
        self, new: Rewriting, node: GraphNode, behind: _Scale | None, before: _Scale | None
    ) -> tuple[GraphValue, ...]:
        weight = self._graph.constants[node.operands[1]]
        scaled = np.asarray(weight, np.float64)
        if behind is not None:
            scaled = scaled * behind.scale.reshape([-1] + [1] * (weight.ndim - 1))
        bias = None
        if before is not None:
            scale, shift = (
                _per_channel(part, node, weight) for part in (before.scale, before.shift)
            )
            bias = (scaled * shift).sum(axis=tuple(range(1, weight.ndim)))
            scaled = scaled * scale
        image = new.translated(node.operands[0])
        filters = new.constant(scaled.astype(weight.dtype), "scaled")
        made = new.calls(node.op, (image, filters), node.attrs, (), node.source)
        if bias is None:
            return made
        column = bias.astype(weight.dtype).reshape([-1] + [1] * (weight.ndim - 2))
        return (new.call("add", made[0], new.constant(column, "shift"), source=node.source),)

    # --- conditions -----------------------------------------------------------------------------

    def _is_known(self, node: GraphNode) -> bool:
        is_norm = node.op == _NORM
        return is_norm and all(value in self._graph.constants for value in node.operands[1:])

    def _takes_from_behind(self, node: GraphNode) -> bool:
        """A convolution of known weights whose result only the norm reads, channels second."""
        made = node.outputs[0]
        is_read_once = len(self._consumers[made]) == 1 and made not in self._graph.outputs
        return self._has_filters(node) and is_read_once

    def _is_taken_ahead(self, norm: GraphNode, does: _Scale) -> bool:
        """True if only convolutions read the norm, and none of them pads where it shifts."""
        made = norm.outputs[0]
        readers = self._consumers[made]
        if not readers or made in self._graph.outputs or norm.attrs.get("axis", 1) != 1:
            return False
        return all(
            self._has_filters(reader)
            and reader.operands[1] is not made
            and (not does.shift.any() or not any(padding_of(reader) or [1]))
            for reader in readers
        )

    def _has_filters(self, node: GraphNode) -> bool:
        return (
            node.op in CONVOLUTIONS
            and node.attrs.get("data_layout", "NC").startswith("NC")
            and node.operands[1] in self._graph.constants
        )


def _per_channel(part: Array, conv: GraphNode, weight: Array) -> Array:
    """Numbers of input channels, for each filter those that it reads."""
    groups = conv.attrs.get("groups", 1)
    by_group = np.asarray(part, np.float64).reshape(groups, -1)
    by_filter = np.repeat(by_group, weight.shape[0] // groups, axis=0)
    return by_filter.reshape(*by_filter.shape, *([1] * (weight.ndim - 2)))
