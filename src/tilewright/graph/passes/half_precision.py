"""Models of float32 in float16: weights and values are rounded, sums keep their 32 bits.

Operators add up in float32 whatever the type of their operands is, so products, norms, pools and
softmax lose no more than the rounding of what they read and write.
"""

from __future__ import annotations

import numpy as np

from tilewright.errors import GraphError
from tilewright.graph.builder import GraphBuilder
from tilewright.graph.graph import Array, Graph, GraphValue, TensorType
from tilewright.graph.rewriting import with_names_of

_WIDE, _NARROW = "float32", "float16"


def to_float16(graph: Graph) -> Graph:
    """The model with float16 in place of float32, inputs and outputs included."""
    builder = GraphBuilder(graph.name)
    new: dict[GraphValue, GraphValue] = {}
    for value in graph.inputs:
        narrow = TensorType(value.type.shape, str(_narrowed(value.type.dtype)))
        new[value] = builder.input(value.name, narrow)
    for value, array in graph.constants.items():
        new[value] = builder.constant(_rounded(value, array), value.name)
    for node in graph.nodes:
        inputs = [None if value is None else new[value] for value in node.inputs]
        attrs = {name: _narrowed(attr) for name, attr in node.attrs.items()}
        names = [value.name for value in node.outputs]
        made = builder.calls(node.op, inputs, attrs, names, node.source)
        new.update(zip(node.outputs, made, strict=True))
    return with_names_of(graph, builder.graph([new[value] for value in graph.outputs]))


def _narrowed(attr: object) -> object:
    return _NARROW if isinstance(attr, str) and attr == _WIDE else attr


def _rounded(value: GraphValue, array: Array) -> Array:
    if array.dtype != np.float32:
        return array
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float16)
    if (np.isinf(narrow) & np.isfinite(array)).any():
        largest = float(np.abs(array[np.isfinite(array)]).max())
        raise GraphError(
            f"the constant {value.name} has numbers up to {largest:.3g}, float16 ends at "
            f"{float(np.finfo(np.float16).max):.5g}; keep the model in float32"
        )
    return narrow
