"""Operators that choose and place elements by indices, or put them in order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.graph import GraphValue


def _counted_from_start(node: NodeContext, indices: GraphValue, extent: int) -> GraphValue:
    """Indices without negative ones, which count from the end."""
    array = node.builder.constants.get(indices)
    if array is not None:
        return node.constant(np.where(array < 0, array + extent, array), indices.type.dtype)
    if indices.type.dtype.startswith("uint"):
        return indices
    dtype = indices.type.dtype
    is_negative = node.call("less", indices, node.constant(0, dtype))
    moved = node.call("add", indices, node.constant(extent, dtype))
    return node.call("where", is_negative, moved, indices)


@converts("Gather")
def _gather(node: NodeContext) -> GraphValue:
    shape = node.shape(node[0])
    axis = node.attr("axis", 0) % len(shape)
    indices = _counted_from_start(node, node[1], shape[axis])
    return node.call("take", node[0], indices, axis=axis)


@converts("GatherElements")
def _gather_elements(node: NodeContext) -> GraphValue:
    axis = node.attr("axis", 0) % len(node.type(0).shape)
    return node.call("gather", node[0], node[1], axis=axis)


def _depth_first(node: NodeContext, indices: GraphValue) -> GraphValue:
    """Indices whose last axis, along which those of one element stand, comes first."""
    rank = len(indices.type.shape)
    return node.call("transpose", indices, axes=[rank - 1, *range(rank - 1)])


@converts("GatherND")
def _gather_nd(node: NodeContext) -> GraphValue:
    batch = node.attr("batch_dims", 0)
    indices = node[1]
    if batch:
        # The axes of the batch become indices like the others.
        shape = node.shape(indices)
        grid = np.stack(np.meshgrid(*map(np.arange, shape[:-1]), indexing="ij"), -1)
        lead = node.constant(grid[..., :batch], indices.type.dtype)
        indices = node.call("concatenate", lead, indices, axis=len(shape) - 1)
    return node.call("gather_nd", node[0], _depth_first(node, indices))


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


@converts("ScatterElements", "Scatter")
def _scatter_elements(node: NodeContext) -> GraphValue:
    reduction = _REDUCTIONS[node.attr("reduction", "none")]
    axis = node.attr("axis", 0)
    inputs = (node[0], node[1], node[2])
    return node.call("scatter_elements", *inputs, axis=axis, reduction=reduction)


@converts("ScatterND")
def _scatter_nd(node: NodeContext) -> GraphValue:
    mode = _REDUCTIONS[node.attr("reduction", "none")]
    return node.call("scatter_nd", node[0], _depth_first(node, node[1]), node[2], mode=mode)


@converts("TensorScatter")
def _tensor_scatter(node: NodeContext) -> GraphValue:
    """Updates written into a cache from an index on, one for each sequence of the batch."""
    cache, update = node[0], node[1]
    shape, given = node.shape(cache), node.shape(update)
    axis = node.attr("axis", -2) % len(shape)
    steps = np.arange(given[axis]).reshape([-1 if n == axis else 1 for n in range(len(shape))])
    places: GraphValue = node.constant(steps, "int64")
    first = node.optional(2)
    if first is not None:
        column = node.call("reshape", first, newshape=[-1] + [1] * (len(shape) - 1))
        places = node.call("add", column, places)
    if node.attr("mode", "linear") == "circular":
        places = node.call("floor_mod", places, node.constant(shape[axis], "int64"))
    places = node.call("broadcast_to", places, shape=given)
    return node.call("scatter_elements", cache, places, update, axis=axis)


@converts("TopK")
def _topk(node: NodeContext) -> Sequence[GraphValue]:
    k = (node.integers(1, "k") or [1])[0]
    shape = node.shape(node[0])
    axis = node.attr("axis", -1) % len(shape)
    is_ascending = not node.attr("largest", 1)
    return node.calls(
        "topk", node[0], k=k, axis=axis, ret_type="both", is_ascend=is_ascending, dtype="int64"
    )


@converts("OneHot")
def _one_hot(node: NodeContext) -> GraphValue:
    depth = int(np.asarray(node.known(1)).reshape(-1)[0])
    indices = node[0]
    if not indices.type.dtype.startswith(("int", "uint")):
        indices = node.call("cast", indices, dtype="int64")
    indices = _counted_from_start(node, indices, depth)
    axis = node.attr("axis", -1)
    hot = node.call("one_hot", indices, depth=depth, axis=axis, dtype="bool")
    off, on = (_element(node, node[2], n) for n in (0, 1))
    return node.call("where", hot, on, off)


def _element(node: NodeContext, vector: GraphValue, index: int) -> GraphValue:
    part = node.call("strided_slice", vector, begin=[index], end=[index + 1], strides=[1])
    return node.call("reshape", part, newshape=[])


@converts("Compress")
def _compress(node: NodeContext) -> GraphValue:
    wanted = np.flatnonzero(np.asarray(node.known(1)))
    axis, x = node.attr("axis"), node[0]
    if axis is None:
        x, axis = node.call("reshape", x, newshape=[-1]), 0
    wanted = wanted[wanted < node.shape(x)[axis]]
    indices = node.constant(wanted, "int64")
    return node.call("take", x, indices, axis=axis % len(node.shape(x)))


@converts("ReverseSequence")
def _reverse_sequence(node: NodeContext) -> GraphValue:
    options = {"time_axis": node.attr("time_axis", 0), "batch_axis": node.attr("batch_axis", 1)}
    return node.call("reverse_sequence", node[0], node[1], **options)


@converts("CumSum", "CumProd")
def _running_total(node: NodeContext) -> GraphValue:
    axis = int(np.asarray(node.known(1)).reshape(-1)[0]) % len(node.type(0).shape)
    is_reversed = bool(node.attr("reverse", 0))
    x = node.call("flip", node[0], axis=axis) if is_reversed else node[0]
    options = {"axis": axis, "dtype": x.type.dtype, "exclusive": bool(node.attr("exclusive", 0))}
    result = node.call(node.op_type.lower(), x, **options)
    return node.call("flip", result, axis=axis) if is_reversed else result


@converts("Trilu")
def _trilu(node: NodeContext) -> GraphValue:
    k = node.known(1)
    diagonal = 0 if k is None else int(np.asarray(k).reshape(-1)[0])
    return node.call("trilu", node[0], k=diagonal, upper=bool(node.attr("upper", 1)))


@converts("EyeLike")
def _eye_like(node: NodeContext) -> GraphValue:
    from tilewright.frontend.onnx.loading import checked_dtype

    rows, columns = node.shape(node[0])
    chosen = node.attr("dtype")
    dtype = node.type(0).dtype if chosen is None else checked_dtype(chosen, "the result")
    rank = node.constant(np.eye(rows, columns, node.attr("k", 0)), "int32")
    return node.call("cast", rank, dtype=dtype)
