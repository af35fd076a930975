"""An ONNX model of a graph, written node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tilewright.errors import GraphError
from tilewright.graph.graph import Graph, GraphNode, GraphValue, TensorType
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.support.names import NameSupply

OPSET = 20
# What all libraries compute in the precision that we do.
_DTYPES = frozenset({"float32", "float16"})

Export: TypeAlias = "Callable[[OnnxWriter, GraphNode], None]"
_EXPORTS: dict[str, Export] = {}


def exports(*names: str) -> Callable[[Export], Export]:
    """Decorator: how an operator is said in ONNX."""

    def add(export: Export) -> Export:
        _EXPORTS.update(dict.fromkeys(names, export))
        return export

    return add


def exported_operators() -> list[str]:
    """The operators that can be written as ONNX, by name."""
    return sorted(_EXPORTS)


class OnnxWriter:
    """The nodes and constants of a model that grows."""

    def __init__(self, graph: Graph) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._names = NameSupply()
        self._values: dict[GraphValue, str] = {}
        for value in graph.values():
            self._values[value] = self._names.fresh(value.name)

    def name(self, value: GraphValue) -> str:
        """What a value is called in the model."""
        return self._values[value]

    def emit(
        self, op: str, inputs: Sequence[str | GraphValue], result: GraphValue | None, **attrs: Any
    ) -> str:
        """Write a node whose only result is a value of the graph, or one of its own."""
        made = self._names.fresh(op.lower()) if result is None else self.name(result)
        self.emit_all(op, inputs, [made], **attrs)
        return made

    def emit_all(
        self, op: str, inputs: Sequence[str | GraphValue], results: Sequence[str], **attrs: Any
    ) -> None:
        """Write a node."""
        from onnx import helper

        words = [self.name(one) if isinstance(one, GraphValue) else one for one in inputs]
        self.nodes.append(helper.make_node(op, words, list(results), **attrs))

    def constant(self, value: Any, dtype: str) -> str:
        """Numbers that are part of the model."""
        from onnx import numpy_helper

        name = self._names.fresh("c")
        array = np.ascontiguousarray(np.asarray(value, to_numpy(dtype)))
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def integers(self, values: Sequence[int]) -> str:
        """Numbers that say something about shapes."""
        return self.constant(list(values), "int64")

    def add(self, node: GraphNode) -> None:
        """Write a node of the graph."""
        if node.op not in _EXPORTS:
            raise GraphError(f"{node} cannot be written as ONNX")
        for value in (*node.operands, *node.outputs):
            if value.type.dtype not in _DTYPES or not value.type.is_static:
                raise GraphError(f"{node} cannot be written as ONNX: it has {value}")
        _EXPORTS[node.op](self, node)


def refuse(node: GraphNode, why: str) -> GraphError:
    """The error about something that ONNX has not."""
    return GraphError(f"{node} cannot be written as ONNX: {why}")


def can_export(node: GraphNode) -> bool:
    """True if there is a way to write a node as ONNX."""
    inputs = tuple(dict.fromkeys(node.operands))
    try:
        OnnxWriter(Graph("main", inputs, node.outputs, (node,))).add(node)
    except GraphError:
        return False
    return True


def to_onnx(graph: Graph) -> Any:
    """The model of a graph."""
    from onnx import helper, numpy_helper

    writer = OnnxWriter(graph)
    for node in graph.nodes:
        writer.add(node)
    made = helper.make_graph(
        writer.nodes, graph.name,
        [_info(writer, value) for value in graph.inputs],
        [_info(writer, value) for value in graph.outputs],
        [*writer.constants, *(
            numpy_helper.from_array(np.ascontiguousarray(array), writer.name(value))
            for value, array in graph.constants.items()
        )],
    )  # fmt: skip
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 9
    return model


def _info(writer: OnnxWriter, value: GraphValue) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(
        writer.name(value), onnx_type(value.type), value.type.extents
    )


def onnx_type(kind: TensorType) -> int:
    """ONNX's number of an element type."""
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(to_numpy(kind.dtype)))
