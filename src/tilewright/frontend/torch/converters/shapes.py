"""Operators that move elements, and values that are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.torch.context import CallContext, converts
from tilewright.graph import GraphValue


@converts("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten")
def _view(node: CallContext) -> GraphValue:
    return node.call("reshape", node.value("self"), newshape=node["result_shape"])


@converts("permute", "transpose", "t", "numpy_T")
def _permute(node: CallContext) -> GraphValue:
    value = node.value("self")
    rank = len(value.type.shape)
    axes = [*range(rank)]
    if "dims" in node.args:
        axes = [axis % rank for axis in node["dims"]]
    elif "dim0" in node.args:
        first, second = node["dim0"] % rank, node["dim1"] % rank
        axes[first], axes[second] = second, first
    else:
        axes.reverse()
    return node.call("transpose", value, axes=axes)


@converts("expand", "broadcast_to")
def _expand(node: CallContext) -> GraphValue:
    return node.call("broadcast_to", node.value("self"), shape=node["result_shape"])


@converts("cat", "concat")
def _cat(node: CallContext) -> GraphValue:
    given = [value for value in node["tensors"] if value.type.shape != (0,)] or node["tensors"]
    tensors = [node.cast(value, node.dtype) for value in given]
    axis = node.args.get("dim", 0) % len(tensors[0].type.shape)
    return node.call("concatenate", *tensors, axis=axis)


@converts("stack")
def _stack(node: CallContext) -> GraphValue:
    tensors = [node.cast(value, node.dtype) for value in node["tensors"]]
    axis = node.args.get("dim", 0) % (len(tensors[0].type.shape) + 1)
    return node.call("stack", *tensors, axis=axis)


@converts("slice")
def _slice(node: CallContext) -> GraphValue:
    value = node.value("self")
    shape = node.shape(value)
    axis = node.args.get("dim", 0) % len(shape)
    extent = shape[axis]
    start, end = node.args.get("start") or 0, node.args.get("end")
    begin, stop, step = [0] * len(shape), list(shape), [1] * len(shape)
    begin[axis] = min(max(start + extent if start < 0 else start, 0), extent)
    last = extent if end is None else end
    stop[axis] = min(max(last + extent if last < 0 else last, begin[axis]), extent)
    step[axis] = node.args.get("step", 1)
    if begin == [0] * len(shape) and stop == shape and step[axis] == 1:
        return value
    return node.call("strided_slice", value, begin=begin, end=stop, strides=step)


@converts("select")
def _select(node: CallContext) -> GraphValue:
    value = node.value("self")
    shape = node.shape(value)
    axis = node["dim"] % len(shape)
    begin, end = [0] * len(shape), list(shape)
    begin[axis] = node["index"] % shape[axis]
    end[axis] = begin[axis] + 1
    part = node.call("strided_slice", value, begin=begin, end=end, strides=[1] * len(shape))
    return node.call("reshape", part, newshape=shape[:axis] + shape[axis + 1 :])


@converts("split", "split_with_sizes", "chunk", "unbind")
def _split(node: CallContext) -> Any:
    value = node.value("self")
    shape = node.shape(value)
    axis = node.args.get("dim", 0) % len(shape)
    sizes = [kind[axis] if node.op[:6] != "unbind" else 1 for kind in node["result_shapes"]]
    ends = np.cumsum(sizes)[:-1].tolist()
    parts = node.calls("split", value, indices_or_sections=ends, axis=axis)
    if not node.op.startswith("unbind"):
        return parts
    rest = shape[:axis] + shape[axis + 1 :]
    return tuple(node.call("reshape", part, newshape=rest) for part in parts)


@converts("repeat")
def _repeat(node: CallContext) -> GraphValue:
    value, times = node.value("self"), list(node["repeats"])
    shape = node.shape(value)
    if len(times) > len(shape):
        grown = [1] * (len(times) - len(shape)) + shape
        value = node.call("reshape", value, newshape=grown)
    return node.call("tile", value, reps=times)


@converts("flip")
def _flip(node: CallContext) -> GraphValue:
    result = node.value("self")
    for axis in node.axes("dims", result) or ():
        result = node.call("flip", result, axis=axis)
    return result


@converts("roll")
def _roll(node: CallContext) -> GraphValue:
    value = node.value("self")
    shape, axes = node.shape(value), node.axes("dims", value)
    if axes is None:
        flat = node.call("reshape", value, newshape=[-1])
        rolled = _rolled(node, flat, 0, node["shifts"][0])
        return node.call("reshape", rolled, newshape=shape)
    for axis, shift in zip(axes, node["shifts"], strict=True):
        value = _rolled(node, value, axis, shift)
    return value


def _rolled(node: CallContext, value: GraphValue, axis: int, shift: int) -> GraphValue:
    extent = node.shape(value)[axis]
    if extent == 0 or shift % extent == 0:
        return value
    first = extent - shift % extent
    parts = node.calls("split", value, indices_or_sections=[first], axis=axis)
    return node.call("concatenate", parts[1], parts[0], axis=axis)


@converts("unfold")
def _unfold(node: CallContext) -> GraphValue:
    """Windows along an axis, their elements along a new last one."""
    value = node.value("self")
    rank = len(value.type.shape)
    axis, size = node["dimension"] % rank, node["size"]
    count = node["result_shape"][axis]
    places = np.arange(count)[:, None] * node["step"] + np.arange(size)
    made = node.call("take", value, node.constant(places, "int64"), axis=axis)
    order = [n for n in range(rank + 1) if n != axis + 1]
    return node.call("transpose", made, axes=[*order, axis + 1])


@converts("diagonal")
def _diagonal(node: CallContext) -> GraphValue:
    value = node.value("self")
    shape = node.shape(value)
    first, second = node.args.get("dim1", 0) % len(shape), node.args.get("dim2", 1) % len(shape)
    offset, count = node.args.get("offset", 0), node["result_shape"][-1]
    rest = [n for n in range(len(shape)) if n not in (first, second)]
    turned = node.call("transpose", value, axes=[first, second, *rest])
    steps = np.arange(count)
    places = np.stack([steps + max(-offset, 0), steps + max(offset, 0)])
    made = node.call("gather_nd", turned, node.constant(places, "int64"))
    return node.call("transpose", made, axes=[*range(1, len(rest) + 1), 0])


@converts("copy")
def _copy(node: CallContext) -> GraphValue:
    value = node.cast(node.value("src"), node.dtype)
    return node.call("broadcast_to", value, shape=node["result_shape"])


@converts("constant_pad_nd", "pad")
def _pad(node: CallContext) -> GraphValue:
    value, pads = node.value("self"), list(node["pad"])
    if node.args.get("mode", "constant") != "constant":
        raise node.refuse(f"padding with mode {node['mode']!r} is not supported")
    shape = node.shape(value)
    rank = len(shape)
    before, after = [0] * rank, [0] * rank
    for n in range(len(pads) // 2):
        before[rank - 1 - n], after[rank - 1 - n] = pads[2 * n], pads[2 * n + 1]
    if min([*before, *after], default=0) < 0:  # which cuts off
        begin = [max(-n, 0) for n in before]
        end = [extent - max(-n, 0) for extent, n in zip(shape, after, strict=True)]
        ones = [1] * rank
        value = node.call("strided_slice", value, begin=begin, end=end, strides=ones)
        before, after = ([max(n, 0) for n in side] for side in (before, after))
    fill = float(node.args.get("value") or 0.0)
    return node.call("nn.pad", value, pad_before=before, pad_after=after, pad_value=fill)


@converts("arange")
def _arange(node: CallContext) -> GraphValue:
    start, end = node.args.get("start", 0), node["end"]
    return node.constant(np.arange(start, end, node.args.get("step", 1)), node.dtype)


@converts(
    "full", "zeros", "ones", "scalar_tensor", "full_like", "zeros_like", "ones_like", "empty",
    "empty_permuted", "new_empty",
)  # fmt: skip
def _full(node: CallContext) -> GraphValue:
    name = node.op.partition(".")[0]
    number = node.args.get("fill_value", node.args.get("s", int(name.startswith("ones"))))
    return node.constant(np.full(node["result_shape"], number), node.dtype)
