"""Sums, extremes and what is made of them along axes."""

from __future__ import annotations

import math
from typing import Any

from tilewright.frontend.torch.context import CallContext, converts
from tilewright.graph import GraphValue


@converts("mean", "sum", "amax", "amin", "any", "all", "max", "min", "prod")
def _reduce(node: CallContext) -> GraphValue:
    op = node.op.partition(".")[0]
    value = node.value("self")
    if op in ("mean", "sum", "prod"):
        value = node.cast(value, node.dtype)
    op = {"amax": "max", "amin": "min"}.get(op, op)
    axes, keep = node.axes("dim", value), bool(node.args.get("keepdim", False))
    return node.call(op, value, axis=axes, keepdims=keep)


@converts("max.dim", "min.dim")
def _with_places(node: CallContext) -> tuple[GraphValue, GraphValue]:
    name, value = node.op.partition(".")[0], node.value("self")
    options = {"axis": node["dim"], "keepdims": bool(node.args.get("keepdim", False))}
    places = node.call(f"arg{name}", value, **options)
    return node.call(name, value, **options), node.cast(places, "int64")


@converts("argmax", "argmin")
def _arg(node: CallContext) -> GraphValue:
    options = {"axis": node.args.get("dim"), "keepdims": bool(node.args.get("keepdim", False))}
    made = node.call(node.op.partition(".")[0], node.value("self"), **options)
    return node.cast(made, "int64")


@converts("softmax", "_softmax", "log_softmax", "_log_softmax")
def _softmax(node: CallContext) -> GraphValue:
    op = "nn.log_softmax" if "log" in node.op else "nn.softmax"
    return node.call(op, node.cast(node.value("self"), node.dtype), axis=node["dim"])


@converts("cumsum", "cumprod")
def _running(node: CallContext) -> GraphValue:
    value = node.cast(node.value("self"), node.dtype)
    return node.call(node.op.partition(".")[0], value, axis=node["dim"])


@converts("var.correction", "var_mean.correction")
def _variance(node: CallContext) -> Any:
    value = node.value("self")
    axes, keep = node.axes("dim", value), bool(node.args.get("keepdim", False))
    mean = node.call("mean", value, axis=axes, keepdims=True)
    centred = node.call("subtract", value, mean)
    squares = node.call("multiply", centred, centred)
    total = node.call("sum", squares, axis=axes, keepdims=keep)
    shape = node.shape(value)
    count = math.prod(shape[axis] for axis in (range(len(shape)) if axes is None else axes))
    given = node.args.get("correction")
    free = max(count - (1 if given is None else given), 0)
    variance = node.call("divide", total, node.constant(free, value.type.dtype))
    if node.op.startswith("var."):
        return variance
    return variance, mean if keep else node.call("reshape", mean, newshape=node["result_shape"])


@converts("linalg_vector_norm")
def _vector_norm(node: CallContext) -> GraphValue:
    value = node.call("abs", node.cast(node.value("self"), node.dtype))
    order = node.args.get("ord", 2)
    options = {"axis": node.axes("dim", value), "keepdims": bool(node.args.get("keepdim", False))}
    if math.isinf(order):
        return node.call("max" if order > 0 else "min", value, **options)
    if order == 0:
        is_other = node.call("not_equal", value, node.constant(0, node.dtype))
        return node.call("sum", node.cast(is_other, node.dtype), **options)
    if order == 1:
        return node.call("sum", value, **options)
    if order == 2:
        return node.call("sqrt", node.call("sum", node.call("multiply", value, value), **options))
    powers = node.call("power", value, node.constant(order, node.dtype))
    total = node.call("sum", powers, **options)
    return node.call("power", total, node.constant(1 / order, node.dtype))
