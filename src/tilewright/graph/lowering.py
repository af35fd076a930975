"""Groups of nodes as programs: their tensor expressions, one on top of the other."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection
from dataclasses import dataclass

from tilewright import ir, te
from tilewright.graph.external import is_external
from tilewright.graph.fusion import FusedGroup
from tilewright.graph.graph import GraphNode, GraphValue, TensorType
from tilewright.graph.operator import find_operator
from tilewright.graph.patterns import Kind, kind_of
from tilewright.ir.annotation_keys import LAYOUT_FREE_BUFFERS


@dataclass(frozen=True)
class _Call:
    """A node of a group: its operands by number, counted from the group's inputs on."""

    op: str
    operands: tuple[int | None, ...]
    attrs: str  # as JSON


@dataclass(frozen=True)
class _Outline:
    """All of a group that its program depends on."""

    inputs: tuple[TensorType, ...]
    calls: tuple[_Call, ...]
    outputs: tuple[int, ...]

    @staticmethod
    def of(group: FusedGroup) -> _Outline:
        numbers = {value: number for number, value in enumerate(group.inputs)}
        calls = []
        for node in group.nodes:
            operands = tuple(None if value is None else numbers[value] for value in node.inputs)
            attrs = json.dumps(node.attrs, sort_keys=True)
            calls.append(_Call(node.op, operands, attrs))
            for value in node.outputs:
                numbers[value] = len(numbers)
        types = tuple(value.type for value in group.inputs)
        return _Outline(types, tuple(calls), tuple(numbers[value] for value in group.outputs))


def lower_group(group: FusedGroup, constants: Collection[GraphValue] = ()) -> ir.PrimFunc:
    """The program of a group: its inputs, then its outputs; constants may get another layout."""
    func = _lowered(_Outline.of(group)).with_attr("global_symbol", group.name)
    free = [n for n, value in enumerate(group.inputs) if value in constants]
    # Operators take their weights for constants; here some are computed, and stay as they are.
    return (
        func.with_attr(LAYOUT_FREE_BUFFERS, free)
        if free
        else func.without_attr(LAYOUT_FREE_BUFFERS)
    )


@functools.lru_cache(maxsize=1024)  # layers of a model are alike
def _lowered(outline: _Outline) -> ir.PrimFunc:
    tensors = [
        te.placeholder(kind.shape, kind.dtype, name=f"p{number}")
        for number, kind in enumerate(outline.inputs)
    ]
    for call in outline.calls:
        operands = [None if number is None else tensors[number] for number in call.operands]
        made = find_operator(call.op)(operands, json.loads(call.attrs))
        tensors += made
    arguments = [*tensors[: len(outline.inputs)], *(tensors[n] for n in outline.outputs)]
    return te.create_prim_func(arguments)


def kind_of_node(node: GraphNode) -> Kind:
    """The kind of one node, from its own program."""
    if is_external(node):
        return Kind.OPAQUE
    group = FusedGroup((node,), tuple(dict.fromkeys(node.operands)), node.outputs)
    return _kind_of(_Outline.of(group))


@functools.lru_cache(maxsize=4096)
def _kind_of(outline: _Outline) -> Kind:
    return kind_of(_lowered(outline))
