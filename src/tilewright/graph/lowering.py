"""Groups of nodes as programs: their tensor expressions, one on top of the other."""

from __future__ import annotations

from collections.abc import Collection

from tilewright import ir, te
from tilewright.graph.external import is_external
from tilewright.graph.fusion import FusedGroup
from tilewright.graph.graph import GraphNode, GraphValue
from tilewright.graph.operator import find_operator, placeholder
from tilewright.graph.patterns import Kind, kind_of
from tilewright.ir.annotation_keys import LAYOUT_FREE_BUFFERS


def lower_group(group: FusedGroup, constants: Collection[GraphValue] = ()) -> ir.PrimFunc:
    """The program of a group: its inputs, then its outputs; constants may get another layout."""
    tensors = {value: placeholder(value) for value in group.inputs}
    for node in group.nodes:
        inputs = [None if value is None else tensors[value] for value in node.inputs]
        tensors.update(zip(node.outputs, find_operator(node.op)(inputs, node.attrs), strict=True))
    arguments = [tensors[value] for value in (*group.inputs, *group.outputs)]
    func = te.create_prim_func(arguments).with_attr("global_symbol", group.name)
    free = [n for n, v in enumerate(group.inputs) if v in constants and _has_layouts(v)]
    # Operators take their weights for constants; here some are computed, and stay as they are.
    return (
        func.with_attr(LAYOUT_FREE_BUFFERS, free)
        if free
        else func.without_attr(LAYOUT_FREE_BUFFERS)
    )


def _has_layouts(value: GraphValue) -> bool:
    """False for numbers and vectors: there is one order to store them in."""
    return sum(1 for extent in value.type.shape if not ir.is_one(ir.convert(extent))) > 1


def kind_of_node(node: GraphNode) -> Kind:
    """The kind of one node, from its own program."""
    if is_external(node):
        return Kind.OPAQUE
    group = FusedGroup((node,), tuple(dict.fromkeys(node.operands)), node.outputs)
    return kind_of(lower_group(group))
