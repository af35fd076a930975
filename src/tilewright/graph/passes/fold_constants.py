"""Nodes whose inputs are all known are computed when the model is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.graph.graph import Array, Graph, GraphNode, GraphValue
from tilewright.graph.rewriting import Rewriting, rewrite
from tilewright.graph.views import is_view

# What NumPy computes as we do; everything else stays for a kernel.
_NUMPY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "maximum": np.maximum, "minimum": np.minimum, "negative": np.negative, "sqrt": np.sqrt,
}  # fmt: skip


def fold_constants(graph: Graph) -> Graph:
    """The graph without what can be known before it runs."""
    return rewrite(graph, _folded)


def _folded(graph: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
    arrays = [graph.known(value) for value in graph.inputs_of(node)]
    if not arrays or any(array is None for array in arrays):
        return None
    made = _evaluated(node, [array for array in arrays if array is not None])
    return None if made is None else (graph.constant(made, node.outputs[0].name),)


def _evaluated(node: GraphNode, arrays: list[Array]) -> Array | None:
    kind = node.outputs[0].type
    if is_view(node):
        return np.asarray(arrays[0]).reshape(kind.extents)
    if node.op in ("transpose", "layout_transform"):
        return np.ascontiguousarray(np.transpose(arrays[0], node.attrs["axes"]))
    if node.op in _NUMPY:
        made: Array = _NUMPY[node.op](*arrays)
        return made if made.dtype.name == kind.dtype else None
    if node.op in _WITH_ATTRS:
        return np.ascontiguousarray(_WITH_ATTRS[node.op](arrays, node.attrs))
    return None


def _sliced(arrays: list[Array], attrs: Mapping[str, Any]) -> Array:
    x, begin, end = arrays[0], attrs["begin"], attrs["end"]
    axes = attrs.get("axes") or range(len(begin))
    chosen = [slice(None)] * x.ndim
    for axis, first, last, step in zip(
        axes, begin, end, attrs.get("strides") or [1] * len(begin), strict=True
    ):
        # As in `topi.strided_slice`: far below the first element there is an end, too.
        stop = None if step < 0 and last < -x.shape[axis] else last
        chosen[axis] = slice(first, stop, step)
    return x[tuple(chosen)]


# What moves elements of constants, as parts of weights are.
_WITH_ATTRS: dict[str, Callable[[list[Array], Mapping[str, Any]], Array]] = {
    "strided_slice": _sliced,
    "concatenate": lambda arrays, attrs: np.concatenate(arrays, attrs.get("axis", 0)),
    "stack": lambda arrays, attrs: np.stack(arrays, attrs.get("axis", 0)),
    "flip": lambda arrays, attrs: np.flip(arrays[0], attrs.get("axis", 0)),
}
