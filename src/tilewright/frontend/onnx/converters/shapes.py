"""Shapes, axes, parts and indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.frontend.onnx.converters.quantized import saturating_float
from tilewright.frontend.onnx.loading import checked_dtype, tensor_of
from tilewright.graph import GraphValue
from tilewright.ir.numpy_bridge import to_numpy


@converts("Reshape")
def _reshape(node: NodeContext) -> GraphValue:
    wanted = node.integers(1, "shape") or []
    shape = node.shape(node[0])
    if not node.attr("allowzero", 0):
        wanted = [shape[n] if extent == 0 else extent for n, extent in enumerate(wanted)]
    return node.call("reshape", node[0], newshape=wanted)


@converts("Flatten")
def _flatten(node: NodeContext) -> GraphValue:
    shape, axis = node.shape(node[0]), node.attr("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    rows = int(np.prod(shape[:axis], dtype=np.int64))
    columns = int(np.prod(shape[axis:], dtype=np.int64))
    return node.call("reshape", node[0], newshape=[rows, columns])


@converts("Transpose")
def _transpose(node: NodeContext) -> GraphValue:
    rank = len(node.type(0).shape)
    return node.call("transpose", node[0], axes=node.attr("perm", [*range(rank)][::-1]))


@converts("Squeeze")
def _squeeze(node: NodeContext) -> GraphValue:
    axes, shape = node.integers(1, "axes"), node.shape(node[0])
    chosen = [a % len(shape) for a in axes] if axes else [n for n, d in enumerate(shape) if d == 1]
    rest = [extent for n, extent in enumerate(shape) if n not in chosen]
    return node.call("reshape", node[0], newshape=rest)


@converts("Unsqueeze")
def _unsqueeze(node: NodeContext) -> GraphValue:
    axes, shape = node.integers(1, "axes") or [], node.shape(node[0])
    rank = len(shape) + len(axes)
    new, rest = {axis % rank for axis in axes}, iter(shape)
    return node.call(
        "reshape", node[0], newshape=[1 if n in new else next(rest) for n in range(rank)]
    )


@converts("Concat")
def _concat(node: NodeContext) -> GraphValue:
    parts = [value for value in node.inputs if value is not None and 0 not in value.type.shape]
    axis = node.attr("axis", 1) % len(node.type(0).shape)
    return node.call("concatenate", *(parts or [node[0]]), axis=axis)


@converts("Split")
def _split(node: NodeContext) -> Sequence[GraphValue]:
    shape = node.shape(node[0])
    axis = node.attr("axis", 0) % len(shape)
    sizes = node.integers(1, "split")
    if sizes is None:
        count = node.attr("num_outputs", len(node.result_names))
        size = -(-shape[axis] // count)
        sizes = [max(min(size, shape[axis] - n * size), 0) for n in range(count)]
    ends = np.cumsum(sizes)[:-1].tolist()
    return node.calls("split", node[0], indices_or_sections=ends, axis=axis)


@converts("Slice")
def _slice(node: NodeContext) -> GraphValue:
    shape = node.shape(node[0])
    starts, ends = node.integers(1, "starts") or [], node.integers(2, "ends") or []
    axes = node.integers(3, "axes") or [*range(len(starts))]
    steps = node.integers(4) or [1] * len(starts)
    begin, end, stride = [0] * len(shape), list(shape), [1] * len(shape)
    for start, stop, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = axis % len(shape)
        begin[at], end[at] = _bounds(start, stop, step, shape[at])
        stride[at] = step
    return node.call("strided_slice", node[0], begin=begin, end=end, strides=stride)


def _bounds(start: int, stop: int, step: int, extent: int) -> tuple[int, int]:
    """First and last of a slice, limited to the axis, in the words of Python."""
    start, stop = (n + extent if n < 0 else n for n in (start, stop))
    if step > 0:
        return min(max(start, 0), extent), min(max(stop, 0), extent)
    last = max(stop, -1)
    # -1 would be the last element; what is meant is the place before the first one.
    return min(max(start, 0), max(extent - 1, 0)), min(last, extent) if last >= 0 else -extent - 1


@converts("Expand")
def _expand(node: NodeContext) -> GraphValue:
    wanted = node.integers(1) or []
    shape = list(np.broadcast_shapes(tuple(node.shape(node[0])), tuple(wanted)))
    return node.call("broadcast_to", node[0], shape=shape)


@converts("Tile")
def _tile(node: NodeContext) -> GraphValue:
    return node.call("tile", node[0], reps=node.integers(1))


@converts("Cast")
def _cast(node: NodeContext) -> GraphValue:
    return cast_to(node, node[0], checked_dtype(node.attr("to"), "the result"))


@converts("CastLike")
def _cast_like(node: NodeContext) -> GraphValue:
    return cast_to(node, node[0], node.type(1).dtype)


def cast_to(node: NodeContext, x: GraphValue, dtype: str) -> GraphValue:
    """A conversion; small floats are limited to their range unless the node says otherwise."""
    if dtype.startswith("float8") and node.attr("saturate", 1):
        wide = x if x.type.dtype != "float16" else node.call("cast", x, dtype="float32")
        return saturating_float(node, wide, dtype)
    return node.call("cast", x, dtype=dtype)


@converts("Pad")
def _pad(node: NodeContext) -> GraphValue:
    pads = node.integers(1, "pads") or []
    shape = node.shape(node[0])
    axes = node.integers(3)
    axes = [*range(len(shape))] if axes is None else axes
    widths = {a % len(shape): (pads[n], pads[n + len(axes)]) for n, a in enumerate(axes)}
    mode = node.attr("mode", "constant")
    if mode == "constant":
        return _filled(node, widths)
    result = node[0]
    for axis, (before, after) in widths.items():
        if before or after:
            places = np.arange(-before, shape[axis] + after)
            chosen = node.constant(_MODES[mode](places, shape[axis]), "int64")
            result = node.call("take", result, chosen, axis=axis)
    return node.call("identity", result) if result is node[0] else result


_MODES = {
    "edge": lambda places, extent: np.clip(places, 0, extent - 1),
    "wrap": lambda places, extent: places % extent,
    "reflect": lambda places, extent: (
        extent - 1 - np.abs(places % max(2 * extent - 2, 1) - (extent - 1))
    ),
}


def _filled(node: NodeContext, widths: dict[int, tuple[int, int]]) -> GraphValue:
    """A border of one value; negative widths cut off."""
    shape, x = node.shape(node[0]), node[0]
    begin = [max(-widths.get(n, (0, 0))[0], 0) for n in range(len(shape))]
    end = [extent - max(-widths.get(n, (0, 0))[1], 0) for n, extent in enumerate(shape)]
    if any(begin) or end != shape:
        x = node.call("strided_slice", x, begin=begin, end=end, strides=[1] * len(shape))
    before = [max(widths.get(n, (0, 0))[0], 0) for n in range(len(shape))]
    after = [max(widths.get(n, (0, 0))[1], 0) for n in range(len(shape))]
    value, dtype = node.optional(2), x.type.dtype
    if value is None or value in node.builder.constants:
        given = (
            node.attr("value", 0.0) if value is None else np.asarray(node.known(2)).reshape(-1)[0]
        )
        fill = np.asarray(given, to_numpy(dtype)).item()
        return node.call("nn.pad", x, pad_before=before, pad_after=after, pad_value=fill)
    # A value that is known only when the model runs: a mask says where it goes.
    padded = node.call("nn.pad", x, pad_before=before, pad_after=after, pad_value=0)
    inside = np.pad(np.ones(node.shape(x), np.bool_), [*zip(before, after, strict=True)])
    scalar = node.call("reshape", value, newshape=[])
    return node.call("where", node.constant(inside, "bool"), padded, scalar)


@converts("ConstantOfShape")
def _constant_of_shape(node: NodeContext) -> GraphValue:
    """Of a shape that is known, and too large for a constant: one number, stretched."""
    shape, tensor = node.integers(0) or [], node.attr("value")
    number = np.float32(0) if tensor is None else tensor_of(tensor, None).reshape(-1)[0]
    scalar = node.constant(number, np.asarray(number).dtype.name)
    return node.call("broadcast_to", scalar, shape=shape)


@converts("Range")
def _range(node: NodeContext) -> GraphValue:
    start, stop, step = (np.asarray(node.known(n)).reshape(-1)[0].item() for n in range(3))
    return node.call("arange", start=start, stop=stop, step=step, dtype=node.type(0).dtype)


@converts("DepthToSpace")
def _depth_to_space(node: NodeContext) -> GraphValue:
    n, c, h, w = node.shape(node[0])
    b = int(node.attr("blocksize"))
    if node.attr("mode", "DCR") == "DCR":
        split, axes = [n, b, b, c // (b * b), h, w], [0, 3, 4, 1, 5, 2]
    else:
        split, axes = [n, c // (b * b), b, b, h, w], [0, 1, 4, 2, 5, 3]
    moved = node.call("transpose", node.call("reshape", node[0], newshape=split), axes=axes)
    return node.call("reshape", moved, newshape=[n, c // (b * b), h * b, w * b])


@converts("SpaceToDepth")
def _space_to_depth(node: NodeContext) -> GraphValue:
    n, c, h, w = node.shape(node[0])
    b = int(node.attr("blocksize"))
    if node.attr("mode", "DCR") == "DCR":
        axes = [0, 3, 5, 1, 2, 4]
    else:
        axes = [0, 1, 3, 5, 2, 4]
    split = node.call("reshape", node[0], newshape=[n, c, h // b, b, w // b, b])
    moved = node.call("transpose", split, axes=axes)
    return node.call("reshape", moved, newshape=[n, c * b * b, h // b, w // b])
