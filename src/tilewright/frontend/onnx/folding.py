"""Nodes whose inputs are known are computed when the model is imported."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import GraphError
from tilewright.graph import GraphBuilder, GraphValue
from tilewright.graph.graph import Array

# Operators of shapes, and those that models compute constants with.
FOLDED = {
    "Abs", "Add", "And", "Cast", "CastLike", "Ceil", "Clip", "Concat", "ConstantOfShape", "Div",
    "Equal", "Expand", "Flatten", "Floor", "Gather", "Greater", "GreaterOrEqual", "Identity",
    "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow", "Range",
    "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Relu", "Reshape", "ScatterND", "Shape",
    "Size", "Slice", "Split", "Sqrt", "Squeeze", "Sub", "Tile", "Transpose", "Trilu",
    "Unsqueeze", "Where", "DequantizeLinear", "QuantizeLinear",
}  # fmt: skip
_MOST_BYTES = 1 << 28


def folded(
    builder: GraphBuilder,
    node: Any,
    inputs: Sequence[GraphValue | None],
    versions: Mapping[str, int],
) -> list[Array] | None:
    """The results of a node whose inputs are known; None if they are not, or are too large."""
    if node.op_type not in FOLDED or node.domain not in ("", "ai.onnx"):
        return None
    feeds = _shape_feeds(inputs) if node.op_type in ("Shape", "Size") else _feeds(builder, inputs)
    if feeds is None or _elements(node.op_type, feeds) > _MOST_BYTES:
        return None
    if node.op_type in ("DequantizeLinear", "QuantizeLinear") and (
        _are_bytes(feeds) or max(versions.get(domain, 0) for domain in ("", "ai.onnx")) < 19
    ):
        return None  # the graph has operators on bytes, the reference none of old versions
    results = _evaluate(node, feeds, versions)
    return results if sum(result.nbytes for result in results) <= _MOST_BYTES else None


def _are_bytes(feeds: Sequence[Array | None]) -> bool:
    """Weights, or a bias, with scales as the graph's passes know them."""
    data, scale = feeds[:2]
    if data is None or scale is None:
        return False
    return data.dtype.name in ("int8", "uint8", "int32") and scale.dtype.name == "float32"


def _elements(op_type: str, feeds: Sequence[Array | None]) -> int:
    """The number of elements that the result would have, of operators that make much of little."""
    numbers: list[Any] = [[] if feed is None else feed.reshape(-1) for feed in feeds]
    match op_type:
        case "ConstantOfShape":
            return math.prod(map(int, numbers[0]))
        case "Expand" | "Tile":
            return len(numbers[0]) * math.prod(map(int, numbers[1]))
        case "Range":
            start, stop, step = (float(feed[0]) for feed in numbers)
            return int(abs(stop - start) / max(abs(step), 1e-300))
        case _:
            return 0


def _shape_feeds(inputs: Sequence[GraphValue | None]) -> list[Array | None] | None:
    value = inputs[0]
    if value is None or not value.type.is_static:
        return None
    # Only the shape is looked at; a stretched number costs no memory.
    return [np.broadcast_to(np.False_, value.type.extents)]


def _feeds(builder: GraphBuilder, inputs: Sequence[GraphValue | None]) -> list[Array | None] | None:
    if any(value is not None and value not in builder.constants for value in inputs):
        return None
    return [None if value is None else builder.constants[value] for value in inputs]


def _evaluate(node: Any, feeds: Sequence[Array | None], versions: Mapping[str, int]) -> list[Array]:
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    given = dict.fromkeys(word for word in node.input if word)
    graph = helper.make_graph(
        [node], "folded", [helper.make_empty_tensor_value_info(word) for word in given],
        [helper.make_empty_tensor_value_info(word) for word in node.output if word],
    )  # fmt: skip
    opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    model = helper.make_model(graph, opset_imports=opsets)
    known = {word: feed for word, feed in zip(node.input, feeds, strict=True) if word}
    try:
        return [np.asarray(result) for result in ReferenceEvaluator(model).run(None, known)]
    except Exception as error:  # of NumPy and of onnx's own: the model is wrong
        raise GraphError(f"it cannot be computed from its known inputs: {error}") from error
