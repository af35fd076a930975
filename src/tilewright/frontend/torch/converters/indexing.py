"""Operators that choose and place elements by indices, or put them in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.frontend.torch.context import CallContext, converts
from tilewright.graph import GraphValue


@converts("embedding")
def _embedding(node: CallContext) -> GraphValue:
    return node.call("take", node.value("weight"), node.value("indices"), axis=0)


@converts("index_select")
def _index_select(node: CallContext) -> GraphValue:
    value = node.value("self")
    axis = node["dim"] % len(value.type.shape)
    return node.call("take", value, node.value("index"), axis=axis)


@converts("gather")
def _gather(node: CallContext) -> GraphValue:
    value = node.value("self")
    axis = node["dim"] % len(value.type.shape)
    return node.call("gather", value, node.value("index"), axis=axis)


_REDUCTIONS = {"sum": "add", "prod": "mul", "amin": "min", "amax": "max"}


@converts("scatter", "scatter_add", "scatter_reduce.two")
def _scatter(node: CallContext) -> GraphValue:
    data, index = node.value("self"), node.value("index")
    reduction = "add" if node.op.startswith("scatter_add") else "update"
    if node.op.startswith("scatter_reduce"):
        if node["reduce"] not in _REDUCTIONS or not node.args.get("include_self", True):
            raise node.refuse("means, and results without the old elements, are not supported")
        reduction = _REDUCTIONS[node["reduce"]]
    shape = node.shape(index)
    if "src" in node.args:
        source, zeros = node.value("src"), [0] * len(shape)
        if node.shape(source) != shape:  # the first elements count
            ones = [1] * len(shape)
            source = node.call("strided_slice", source, begin=zeros, end=shape, strides=ones)
    else:
        source = node.call("broadcast_to", node.value("value"), shape=shape)
    axis = node["dim"] % max(len(shape), 1)
    return node.call("scatter_elements", data, index, source, axis=axis, reduction=reduction)


@dataclass(frozen=True)
class _Indexed:
    """`x[i, :, j]`: the axes that indices choose from, and where in the result theirs stand."""

    axes: list[int]
    indices: list[GraphValue]  # stretched to each other
    rest: list[int]

    @property
    def rank(self) -> int:
        """Of an index."""
        return len(self.indices[0].type.shape)

    @property
    def place(self) -> int:
        """The first axis of the result that is an index's."""
        together = self.axes[-1] - self.axes[0] == len(self.axes) - 1
        return self.axes[0] if together else 0

    @property
    def order(self) -> list[int]:
        """The axes of the result, of one that has those of indices first."""
        rank, place = self.rank, self.place
        kept = [*range(rank, rank + len(self.rest))]
        return [*kept[:place], *range(rank), *kept[place:]]


def _indexed(node: CallContext, data: GraphValue) -> _Indexed:
    shape, given = node.shape(data), list(node["indices"])
    axes = [n for n, index in enumerate(given) if index is not None]
    chosen = []
    for axis in axes:
        index = given[axis]
        if index.type.dtype == "bool":
            known = node.builder.constants.get(index)
            if known is None or known.ndim != 1:
                raise node.refuse("indices that are truth values are not supported")
            index = node.constant(np.flatnonzero(known), "int64")
        chosen.append(_from_start(node, index, shape[axis]))
    common = list(np.broadcast_shapes(*(index.type.extents for index in chosen)))
    stretched = [
        index
        if list(index.type.extents) == common
        else node.call("broadcast_to", index, shape=common)
        for index in chosen
    ]
    return _Indexed(axes, stretched, [n for n in range(len(shape)) if n not in axes])


def _from_start(node: CallContext, index: GraphValue, extent: int) -> GraphValue:
    """Indices without negative ones, which count from the end."""
    known = node.builder.constants.get(index)
    dtype = index.type.dtype
    if known is not None:
        return node.constant(np.where(known < 0, known + extent, known), dtype)
    if dtype.startswith("uint"):
        return index
    moved = node.call("add", index, node.constant(extent, dtype))
    is_negative = node.call("less", index, node.constant(0, dtype))
    return node.call("where", is_negative, moved, index)


@converts("index.Tensor", "_unsafe_index.Tensor")
def _index(node: CallContext) -> GraphValue:
    data = node.value("self")
    by = _indexed(node, data)
    if len(by.axes) == 1:
        return node.call("take", data, by.indices[0], axis=by.axes[0])
    turned = _turned(node, data, [*by.axes, *by.rest])
    made = node.call("gather_nd", turned, node.call("stack", *by.indices, axis=0))
    return _turned(node, made, by.order)


@converts("index_put", "_unsafe_index_put")
def _index_put(node: CallContext) -> GraphValue:
    data, values = node.value("self"), node.value("values")
    is_sum = bool(node.args.get("accumulate"))
    first = node["indices"][0]
    if len(node["indices"]) == 1 and first is not None and first.type.dtype == "bool":
        return _under_mask(node, data, first, values, is_sum)
    by = _indexed(node, data)
    shape = node.shape(data)
    lead, rest = node.shape(by.indices[0]), [shape[n] for n in by.rest]
    wanted = [*rest[: by.place], *lead, *rest[by.place :]]
    values = node.call("broadcast_to", values, shape=wanted)
    values = _turned(node, values, _inverse(by.order))
    order = [*by.axes, *by.rest]
    places = node.call("stack", *by.indices, axis=0)
    mode = "add" if is_sum else "update"
    made = node.call("scatter_nd", _turned(node, data, order), places, values, mode=mode)
    return _turned(node, made, _inverse(order))


def _under_mask(
    node: CallContext, data: GraphValue, mask: GraphValue, values: GraphValue, is_sum: bool
) -> GraphValue:
    """One number wherever a mask is true; several would be dealt out in order."""
    if values.type.size != 1:
        raise node.refuse("several values under a mask are not supported")
    shape = node.shape(mask) + [1] * (len(node.shape(data)) - len(node.shape(mask)))
    mask = node.call("reshape", mask, newshape=shape)
    value = node.call("reshape", values, newshape=[])
    return node.call("where", mask, node.call("add", data, value) if is_sum else value, data)


def _turned(node: CallContext, value: GraphValue, order: Sequence[int]) -> GraphValue:
    same = list(order) == [*range(len(order))]
    return value if same else node.call("transpose", value, axes=list(order))


def _inverse(order: Sequence[int]) -> list[int]:
    return [int(n) for n in np.argsort(order)]


@converts("slice_scatter", "select_scatter")
def _slice_scatter(node: CallContext) -> GraphValue:
    """A tensor with a part replaced."""
    data, source = node.value("self"), node.value("src")
    shape = node.shape(data)
    axis = node.args.get("dim", 0) % len(shape)
    extent = shape[axis]
    if node.op.startswith("select"):
        chosen = range(node["index"] % extent, node["index"] % extent + 1)
    else:
        start, end = node.args.get("start"), node.args.get("end")
        chosen = range(*slice(start, end, node.args.get("step", 1)).indices(extent))
    part = [*shape[:axis], len(chosen), *shape[axis + 1 :]]
    source = node.call("reshape", source, newshape=part)
    if len(chosen) in (0, extent):
        return source if chosen else data
    line = [-1 if n == axis else 1 for n in range(len(shape))]
    places = np.broadcast_to(np.asarray(chosen).reshape(line), part)
    return node.call("scatter_elements", data, node.constant(places, "int64"), source, axis=axis)


@converts("topk")
def _topk(node: CallContext) -> Any:
    value = node.value("self")
    axis = node.args.get("dim", -1) % len(value.type.shape)
    is_ascending = not node.args.get("largest", True)
    return node.calls(
        "topk", value, k=node["k"], axis=axis, ret_type="both", is_ascend=is_ascending,
        dtype="int64",
    )  # fmt: skip


@converts("sort")
def _sort(node: CallContext) -> Any:
    value = node.value("self")
    axis = node.args.get("dim", -1) % max(len(value.type.shape), 1)
    options = {"axis": axis, "is_ascend": not node.args.get("descending", False)}
    places = node.call("argsort", value, dtype="int64", **options)
    return node.call("sort", value, **options), places
