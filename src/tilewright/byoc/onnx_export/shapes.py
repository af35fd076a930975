"""Operators that move elements, in ONNX."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.byoc.onnx_export.writer import OnnxWriter, exports, refuse
from tilewright.graph.graph import GraphNode


@exports("reshape", "squeeze", "expand_dims", "nn.flatten")
def _reshape(writer: OnnxWriter, node: GraphNode) -> None:
    extents = node.outputs[0].type.extents
    if 0 in extents:
        raise refuse(node, "it is empty")
    writer.emit("Reshape", [node.operands[0], writer.integers(extents)], node.outputs[0])


@exports("transpose", "layout_transform")
def _transpose(writer: OnnxWriter, node: GraphNode) -> None:
    rank = len(node.operands[0].type.shape)
    axes = node.attrs.get("axes") or list(range(rank))[::-1]
    perm = [int(axis) % rank for axis in axes]
    writer.emit("Transpose", node.operands, node.outputs[0], perm=perm)


@exports("concatenate")
def _concatenate(writer: OnnxWriter, node: GraphNode) -> None:
    writer.emit("Concat", node.operands, node.outputs[0], axis=int(node.attrs.get("axis", 0)))


@exports("broadcast_to")
def _broadcast_to(writer: OnnxWriter, node: GraphNode) -> None:
    extents = writer.integers(node.outputs[0].type.extents)
    writer.emit("Expand", [node.operands[0], extents], node.outputs[0])


@exports("strided_slice")
def _strided_slice(writer: OnnxWriter, node: GraphNode) -> None:
    begin, end = node.attrs["begin"], node.attrs["end"]
    strides: Sequence[int] = node.attrs.get("strides") or [1] * len(begin)
    if min(strides, default=1) < 1:
        raise refuse(node, "it runs backwards")
    axes = node.attrs.get("axes") or list(range(len(begin)))
    parts = [writer.integers(numbers) for numbers in (begin, end, axes, strides)]
    writer.emit("Slice", [node.operands[0], *parts], node.outputs[0])


@exports("split")
def _split(writer: OnnxWriter, node: GraphNode) -> None:
    axis = int(node.attrs.get("axis", 0))
    sizes = writer.integers([value.type.extents[axis] for value in node.outputs])
    names = [writer.name(value) for value in node.outputs]
    writer.emit_all("Split", [node.operands[0], sizes], names, axis=axis)


@exports("nn.pad")
def _pad(writer: OnnxWriter, node: GraphNode) -> None:
    before = node.attrs["pad_before"]
    after = node.attrs.get("pad_after") or before
    sides = writer.integers([*before, *after])
    fill = writer.constant(node.attrs.get("pad_value", 0.0), node.outputs[0].type.dtype)
    writer.emit("Pad", [node.operands[0], sides, fill], node.outputs[0])
