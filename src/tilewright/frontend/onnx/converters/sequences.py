"""Sequences of tensors inside a model: they are followed at import, and leave no trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.errors import GraphError
from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.frontend.onnx.converters.control_flow import element
from tilewright.graph import GraphValue, TensorType


@dataclass(frozen=True, eq=False)
class SequenceValue(GraphValue):
    """Tensors in a row; no operator of a graph takes it."""

    items: tuple[GraphValue, ...]


def _made(node: NodeContext, items: Sequence[GraphValue]) -> SequenceValue:
    return SequenceValue(node.result_names[0], TensorType((), "void"), tuple(items))


def _items(node: NodeContext) -> tuple[GraphValue, ...]:
    value = node[0]
    if not isinstance(value, SequenceValue):
        raise GraphError(f"{value.name} is not a sequence")
    return value.items


def _position(node: NodeContext, position: int, default: int) -> int:
    given = node.integers(position)
    return given[0] if given else default


@converts("SequenceConstruct")
def _construct(node: NodeContext) -> GraphValue:
    return _made(node, [node[n] for n in range(len(node.inputs))])


@converts("SequenceEmpty")
def _empty(node: NodeContext) -> GraphValue:
    return _made(node, [])


@converts("SequenceAt")
def _at(node: NodeContext) -> GraphValue:
    return _items(node)[_position(node, 1, 0)]


@converts("SequenceLength")
def _length(node: NodeContext) -> GraphValue:
    return node.constant(len(_items(node)), "int64")


@converts("SequenceInsert")
def _insert(node: NodeContext) -> GraphValue:
    items = list(_items(node))
    items.insert(_position(node, 2, len(items)), node[1])
    return _made(node, items)


@converts("SequenceErase")
def _erase(node: NodeContext) -> GraphValue:
    items = list(_items(node))
    del items[_position(node, 1, -1)]
    return _made(node, items)


@converts("ConcatFromSequence")
def _concatenated(node: NodeContext) -> GraphValue:
    op = "stack" if node.attr("new_axis", 0) else "concatenate"
    return node.call(op, *_items(node), axis=int(node.attr("axis")))


@converts("SplitToSequence")
def _split(node: NodeContext) -> GraphValue:
    axis = node.attr("axis", 0) % len(node.type(0).shape)
    extent, given = node.shape(node[0])[axis], node.known(1)
    if given is None and not node.attr("keepdims", 1):
        return _made(node, [element(node, node[0], axis, n) for n in range(extent)])
    size = 1 if given is None else int(np.asarray(given).reshape(-1)[0])
    if given is None or np.ndim(given) == 0:
        cuts = [*range(size, extent, size)]
    else:
        cuts = np.cumsum(given)[:-1].tolist()
    return _made(node, node.calls("split", node[0], indices_or_sections=cuts, axis=axis))
