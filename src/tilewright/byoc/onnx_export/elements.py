"""Operators on elements, and reductions, in ONNX."""

from __future__ import annotations

from tilewright.byoc.onnx_export.writer import OnnxWriter, exports, refuse
from tilewright.graph.graph import GraphNode

_SAME_NAME = {
    "abs": "Abs", "ceil": "Ceil", "cos": "Cos", "erf": "Erf", "exp": "Exp", "floor": "Floor",
    "identity": "Identity", "log": "Log", "negative": "Neg", "nn.relu": "Relu",
    "round": "Round", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin", "sqrt": "Sqrt",
    "tanh": "Tanh",
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "power": "Pow",
    "maximum": "Max", "minimum": "Min",
}  # fmt: skip


@exports(*_SAME_NAME)
def _same(writer: OnnxWriter, node: GraphNode) -> None:
    writer.emit(_SAME_NAME[node.op], node.operands, node.outputs[0])


@exports("rsqrt")
def _rsqrt(writer: OnnxWriter, node: GraphNode) -> None:
    root = writer.emit("Sqrt", node.operands, None)
    writer.emit("Reciprocal", [root], node.outputs[0])


@exports("nn.silu")
def _silu(writer: OnnxWriter, node: GraphNode) -> None:
    gate = writer.emit("Sigmoid", node.operands, None)
    writer.emit("Mul", [node.operands[0], gate], node.outputs[0])


@exports("nn.gelu")
def _gelu(writer: OnnxWriter, node: GraphNode) -> None:
    kind = node.attrs.get("approximate", "none")
    writer.emit("Gelu", node.operands, node.outputs[0], approximate=kind)


@exports("nn.leaky_relu")
def _leaky_relu(writer: OnnxWriter, node: GraphNode) -> None:
    writer.emit("LeakyRelu", node.operands, node.outputs[0], alpha=float(node.attrs["alpha"]))


@exports("clip")
def _clip(writer: OnnxWriter, node: GraphNode) -> None:
    dtype = node.outputs[0].type.dtype
    bounds = [writer.constant(node.attrs[word], dtype) for word in ("a_min", "a_max")]
    writer.emit("Clip", [node.operands[0], *bounds], node.outputs[0])


_REDUCTIONS = {"mean": "ReduceMean", "sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin"}


@exports(*_REDUCTIONS)
def _reduce(writer: OnnxWriter, node: GraphNode) -> None:
    if node.attrs.get("dtype") is not None:
        raise refuse(node, "its result has another type than its input")
    axes = node.attrs.get("axis")
    keep = int(bool(node.attrs.get("keepdims", False)))
    every = range(len(node.operands[0].type.shape))
    chosen = list(every) if axes is None else [axes] if isinstance(axes, int) else list(axes)
    inputs = (node.operands[0], writer.integers(chosen))
    writer.emit(_REDUCTIONS[node.op], inputs, node.outputs[0], keepdims=keep)


@exports("nn.softmax", "nn.log_softmax")
def _softmax(writer: OnnxWriter, node: GraphNode) -> None:
    op = "Softmax" if node.op == "nn.softmax" else "LogSoftmax"
    writer.emit(op, node.operands, node.outputs[0], axis=int(node.attrs.get("axis", -1)))
