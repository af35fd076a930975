"""Reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.graph import GraphValue

_PLAIN = {
    "ReduceMax": "max", "ReduceMean": "mean", "ReduceMin": "min", "ReduceProd": "prod",
    "ReduceSum": "sum",
}  # fmt: skip


def _axes(node: NodeContext) -> list[int] | None:
    axes = node.integers(1, "axes")
    if axes:
        return [axis % len(node.type(0).shape) for axis in axes]
    return None


@converts(*_PLAIN)
def _reduce(node: NodeContext) -> GraphValue:
    axes = _axes(node)
    if axes is None and node.attr("noop_with_empty_axes", 0):
        return node.call("identity", node[0])
    return reduced(node, node[0], _PLAIN[node.op_type], axes)


def reduced(node: NodeContext, x: GraphValue, op: str, axes: list[int] | None) -> GraphValue:
    """A reduction in the type of its operand; of nothing, it is what the reduction starts from."""
    keep, dtype = bool(node.attr("keepdims", 1)), x.type.dtype
    if op in ("max", "min"):
        if x.type.size == 0:
            return _limit(node, x, op, axes)
        if dtype == "bool":
            op = {"max": "any", "min": "all"}[op]
        return node.call(op, x, axis=axes, keepdims=keep)
    if op == "mean" and not dtype.startswith(("float", "bfloat")):
        total = node.call("mean", x, axis=axes, keepdims=keep, dtype="float64")
        return node.call("cast", total, dtype=dtype)
    return node.call(op, x, axis=axes, keepdims=keep, dtype=dtype)


def _limit(node: NodeContext, x: GraphValue, op: str, axes: list[int] | None) -> GraphValue:
    """What a maximum or minimum of no elements is."""
    shape, keep = node.shape(x), node.attr("keepdims", 1)
    chosen = range(len(shape)) if axes is None else axes
    kept = [1 if n in chosen else extent for n, extent in enumerate(shape)]
    result = kept if keep else [e for n, e in enumerate(shape) if n not in chosen]
    dtype = x.type.dtype
    limits: dict[str, float]
    if dtype == "bool":
        limits = {"max": False, "min": True}
    elif dtype.startswith(("float", "bfloat")):
        limits = {"max": -np.inf, "min": np.inf}
    else:
        limits = {"max": np.iinfo(dtype).min, "min": np.iinfo(dtype).max}
    return node.call("broadcast_to", node.constant(limits[op], dtype), shape=result)


@converts("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
def _composed(node: NodeContext) -> GraphValue:
    axes = _axes(node)
    if axes is None and node.attr("noop_with_empty_axes", 0):
        return _WITHOUT_AXES[node.op_type](node, node[0])
    before, after = _AROUND[node.op_type]
    if node.op_type == "ReduceLogSumExp" and node.type(0).size:
        return _log_sum_exp(node, axes)
    return after(node, reduced(node, before(node, node[0]), "sum", axes))


def _log_sum_exp(node: NodeContext, axes: list[int] | None) -> GraphValue:
    """Relative to the largest, which keeps the sum in range."""
    largest = node.call("max", node[0], axis=axes, keepdims=True)
    zero = node.constant(0, node.type(0).dtype)
    largest = node.call("where", node.call("isfinite", largest), largest, zero)
    powers = node.call("exp", node.call("subtract", node[0], largest))
    total = node.call("log", reduced(node, powers, "sum", axes))
    return node.call("add", total, node.call("reshape", largest, newshape=node.shape(total)))


def _same(node: NodeContext, x: GraphValue) -> GraphValue:
    return x


def _call(op: str) -> Callable[[NodeContext, GraphValue], GraphValue]:
    return lambda node, x: node.call(op, x)


def _square(node: NodeContext, x: GraphValue) -> GraphValue:
    return node.call("multiply", x, x)


def _root(node: NodeContext, x: GraphValue) -> GraphValue:
    if x.type.dtype.startswith(("float", "bfloat")):
        return node.call("sqrt", x)
    wide = node.call("sqrt", node.call("cast", x, dtype="float64"))
    return node.call("cast", wide, dtype=x.type.dtype)


# What is done before and after the sum.
_AROUND = {
    "ReduceL1": (_call("abs"), _same), "ReduceL2": (_square, _root),
    "ReduceSumSquare": (_square, _same), "ReduceLogSum": (_same, _call("log")),
    "ReduceLogSumExp": (_call("exp"), _call("log")),
}  # fmt: skip
_WITHOUT_AXES = {
    "ReduceL1": _call("abs"), "ReduceL2": _call("abs"), "ReduceSumSquare": _square,
    "ReduceLogSum": _call("log"), "ReduceLogSumExp": _call("identity"),
}  # fmt: skip


@converts("ArgMax", "ArgMin")
def _arg(node: NodeContext) -> GraphValue:
    op = node.op_type.lower()
    options = {
        "axis": node.attr("axis", 0),
        "keepdims": bool(node.attr("keepdims", 1)),
        "select_last_index": bool(node.attr("select_last_index", 0)),
    }
    return node.call("cast", node.call(op, node[0], **options), dtype="int64")


@converts("Softmax", "LogSoftmax")
def _softmax_over_rest(node: NodeContext) -> GraphValue:
    """Before version 13: over all axes from `axis` on."""
    op = "nn.softmax" if node.op_type == "Softmax" else "nn.log_softmax"
    shape = node.shape(node[0])
    axis = node.attr("axis", 1) % max(len(shape), 1)
    rows = 1
    for extent in shape[:axis]:
        rows *= extent
    flat = node.call("reshape", node[0], newshape=[rows, -1])
    return node.call("reshape", node.call(op, flat, axis=-1), newshape=shape)


@converts("Softmax", "LogSoftmax", since=13)
def _softmax(node: NodeContext) -> GraphValue:
    op = "nn.softmax" if node.op_type == "Softmax" else "nn.log_softmax"
    return node.call(op, node[0], axis=node.attr("axis", -1))


@converts("Hardmax")
def _hardmax_over_rest(node: NodeContext) -> GraphValue:
    """Before version 13: over all axes from `axis` on."""
    shape = node.shape(node[0])
    axis = node.attr("axis", 1) % max(len(shape), 1)
    flat = node.call("reshape", node[0], newshape=[int(np.prod(shape[:axis])), -1])
    return node.call("reshape", _hardest(node, flat, 1), newshape=shape)


@converts("Hardmax", since=13)
def _hardmax(node: NodeContext) -> GraphValue:
    return _hardest(node, node[0], node.attr("axis", -1) % len(node.type(0).shape))


def _hardest(node: NodeContext, x: GraphValue, axis: int) -> GraphValue:
    """1 at the first of the largest elements, elsewhere 0."""
    index = node.call("argmax", x, axis=axis, keepdims=False)
    depth = node.shape(x)[axis]
    return node.call("one_hot", index, depth=depth, axis=axis, dtype=x.type.dtype)
