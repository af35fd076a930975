"""Convolutions, pools, products, norms and attention in ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.byoc.onnx_export.writer import OnnxWriter, exports, refuse
from tilewright.graph.graph import GraphNode, GraphValue


def _each(value: Any, rank: int) -> list[int]:
    numbers = [value] if isinstance(value, int) else list(value)
    return [int(n) for n in (numbers * rank if len(numbers) == 1 else numbers)]


def _pads(node: GraphNode, rank: int) -> list[int]:
    """All begins, then all ends."""
    padding = node.attrs.get("padding", 0)
    if isinstance(padding, str):
        if padding.upper() != "VALID":
            raise refuse(node, f"padding is {padding!r}")
        padding = 0
    sides = _each(padding, rank)
    return sides * 2 if len(sides) == rank else sides


@exports("nn.conv1d", "nn.conv2d", "nn.conv3d")
def _conv(writer: OnnxWriter, node: GraphNode) -> None:
    rank = len(node.operands[0].type.shape) - 2
    if not node.attrs.get("data_layout", "NC").startswith("NC") or node.attrs.get("out_dtype"):
        raise refuse(node, "ONNX wants channels second, and one type")
    writer.emit(
        "Conv", node.operands, node.outputs[0], pads=_pads(node, rank),
        strides=_each(node.attrs.get("strides", 1), rank),
        dilations=_each(node.attrs.get("dilation", 1), rank),
        group=int(node.attrs.get("groups", 1)),
    )  # fmt: skip


@exports("nn.pool1d", "nn.pool2d", "nn.pool3d")
def _pool(writer: OnnxWriter, node: GraphNode) -> None:
    rank = len(node.operands[0].type.shape) - 2
    dilation = _each(node.attrs.get("dilation", 1), rank)
    if not node.attrs.get("layout", "NC").startswith("NC") or node.attrs.get("ceil_mode"):
        raise refuse(node, "ONNX wants channels second, and windows that end inside the image")
    options: dict[str, Any] = {
        "kernel_shape": _each(node.attrs["kernel"], rank),
        "strides": _each(node.attrs["stride"], rank),
        "pads": _pads(node, rank),
    }
    if node.attrs["pool_type"] == "max":
        writer.emit("MaxPool", node.operands, node.outputs[0], dilations=dilation, **options)
        return
    if dilation != [1] * rank:
        raise refuse(node, "averages with a dilation are not supported")
    padded = int(bool(node.attrs.get("count_include_pad", True)))
    writer.emit("AveragePool", node.operands, node.outputs[0], count_include_pad=padded, **options)


@exports("nn.global_pool")
def _global_pool(writer: OnnxWriter, node: GraphNode) -> None:
    if not node.attrs.get("layout", "NC").startswith("NC"):
        raise refuse(node, "channels come second")
    op = {"max": "GlobalMaxPool", "avg": "GlobalAveragePool"}[node.attrs["pool_type"]]
    writer.emit(op, node.operands, node.outputs[0])


@exports("nn.dense")
def _dense(writer: OnnxWriter, node: GraphNode) -> None:
    _check_product(node, 2)
    writer.emit("Gemm", node.operands, node.outputs[0], transB=1)


def _check_product(node: GraphNode, rank: int | None = None) -> None:
    if node.attrs.get("out_dtype") or len({v.type.dtype for v in node.operands}) > 1:
        raise refuse(node, "ONNX wants one type for operands and result")
    if rank is not None and len(node.operands[0].type.shape) != rank:
        raise refuse(node, f"ONNX wants {rank} axes")


@exports("matmul", "nn.matmul", "nn.batch_matmul")
def _matmul(writer: OnnxWriter, node: GraphNode) -> None:
    _check_product(node)
    turned = (
        bool(node.attrs.get("transpose_a", False)),
        bool(node.attrs.get("transpose_b", node.op == "nn.batch_matmul")),
    )
    factors = [
        _turned(writer, value) if turn else writer.name(value)
        for value, turn in zip(node.operands, turned, strict=False)
    ]
    if len(node.operands) == 2:
        writer.emit("MatMul", factors, node.outputs[0])
    else:
        product = writer.emit("MatMul", factors, None)
        writer.emit("Add", [product, node.operands[2]], node.outputs[0])


def _turned(writer: OnnxWriter, value: GraphValue) -> str:
    """The last two axes changed over."""
    axes = list(range(len(value.type.shape)))
    axes[-2:] = axes[:-3:-1]
    return writer.emit("Transpose", [value], None, perm=axes)


@exports("nn.layer_norm")
def _layer_norm(writer: OnnxWriter, node: GraphNode) -> None:
    value, rank = node.operands[0], len(node.operands[0].type.shape)
    axes = sorted(axis % rank for axis in node.attrs["axis"])
    trailing = tuple(value.type.shape[axes[0] :])
    if axes != list(range(axes[0], rank)) or node.operands[1].type.shape != trailing:
        raise refuse(node, "ONNX normalises over the last axes only")
    writer.emit(
        "LayerNormalization", node.operands, node.outputs[0], axis=axes[0],
        epsilon=float(node.attrs.get("epsilon", 1e-5)),
    )  # fmt: skip


@exports("nn.batch_norm")
def _batch_norm(writer: OnnxWriter, node: GraphNode) -> None:
    plain = node.attrs.get("center", True) and node.attrs.get("scale", True)
    if node.attrs.get("axis", 1) != 1 or not plain:
        raise refuse(node, "ONNX wants channels second, a scale and a shift")
    epsilon = float(node.attrs.get("epsilon", 1e-5))
    writer.emit("BatchNormalization", node.operands, node.outputs[0], epsilon=epsilon)


@exports("nn.attention")
def _attention(writer: OnnxWriter, node: GraphNode) -> None:
    query, key, value = node.operands[:3]
    dtype = query.type.dtype
    depth, lengths = query.type.extents[-1], (query.type.extents[-2], key.type.extents[-2])
    scale = node.attrs.get("scale")
    factor = writer.constant(1 / math.sqrt(depth) if scale is None else scale, dtype)
    scaled = writer.emit("Mul", [query, factor], None)
    scores = writer.emit("MatMul", [scaled, _turned(writer, key)], None)
    if len(node.operands) > 3:
        scores = writer.emit("Add", [scores, node.operands[3]], None)
    if node.attrs.get("is_causal"):
        hidden = np.where(np.tri(*lengths, dtype=bool), 0.0, -np.inf)
        scores = writer.emit("Add", [scores, writer.constant(hidden, dtype)], None)
    shares = writer.emit("Softmax", [scores], None, axis=-1)
    writer.emit("MatMul", [shares, value], node.outputs[0])
