"""3x3 convolutions of images in NCHW become Winograd's, their weights transformed at once.

This is what TVM does for GPUs. Tasks are extracted like that for those who compare with its lists.
"""

from __future__ import annotations

import numpy as np

from tilewright.graph.graph import Array, Graph, GraphNode, GraphValue
from tilewright.graph.operators.transformed_winograd import TRANSFORMED_WINOGRAD
from tilewright.graph.passes.winograd import is_one_everywhere
from tilewright.graph.rewriting import Rewriting, rewrite
from tilewright.topi.nn.winograd import transform_matrices

TILE, TAPS = 4, 3


def transformed_winograd(graph: Graph) -> Graph:
    """The graph with all convolutions that allow it in tiles of four outputs a side."""

    def replaced(new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
        if node.op != "nn.conv2d" or not _allows_it(graph, node):
            return None
        weight = new.constant(_transformed(graph.constants[node.operands[1]]), "winograd")
        attrs = {"padding": node.attrs.get("padding", [0, 0, 0, 0]), "tile_size": TILE}
        inputs = (new.translated(node.operands[0]), weight)
        return new.calls(TRANSFORMED_WINOGRAD, inputs, attrs, (), node.source)

    return rewrite(graph, replaced)


def _allows_it(graph: Graph, node: GraphNode) -> bool:
    data, weight = node.operands
    return (
        weight in graph.constants
        and node.attrs.get("data_layout", "NCHW") == "NCHW"
        and node.attrs.get("groups", 1) == 1
        and all(is_one_everywhere(node.attrs.get(name, 1)) for name in ("strides", "dilation"))
        and weight.type.extents[2:] == (TAPS, TAPS)
        and data.type.dtype == weight.type.dtype
        and data.type.dtype.startswith("float")
    )


def _transformed(weight: Array) -> Array:
    """[alpha, alpha, channels in, channels out] of [channels out, channels in, 3, 3]."""
    matrix = np.array([[float(x) for x in row] for row in transform_matrices(TILE, TAPS)[2]])
    made = np.einsum("eh,oihw,nw->enio", matrix, weight.astype(np.float64), matrix, optimize=True)
    return np.ascontiguousarray(made.astype(weight.dtype))
