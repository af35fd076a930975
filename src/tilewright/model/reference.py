"""Graphs run node by node, as they are written: what kernels are checked against.

Each node becomes a program of plain loops, without schedule, fusion or packed weights. Floating
point is carried out in double precision where the operator allows it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.byoc import prepare_node
from tilewright.driver import build
from tilewright.errors import TilewrightError
from tilewright.graph.external import is_external
from tilewright.graph.fusion import FusedGroup
from tilewright.graph.graph import Array, Graph, GraphNode, GraphValue, TensorType
from tilewright.graph.lowering import lower_group
from tilewright.graph.operator import result_types
from tilewright.graph.views import is_view
from tilewright.ir import DType
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.runtime.module import CompiledFunction

_WIDE = "float64"


@dataclass(frozen=True)
class _PlainKernel:
    function: CompiledFunction
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        given = [
            np.asarray(array, to_numpy(kind.dtype), order="C")
            for array, kind in zip(arrays, self.inputs, strict=True)
        ]
        made: list[Array] = [np.empty(t.extents, to_numpy(t.dtype)) for t in self.outputs]
        self.function(*given, *made)
        return made


@dataclass
class GraphReference:
    """Runs nodes; programs that were needed once are kept."""

    is_wide: bool = True  # in double precision
    _kernels: dict[Any, _PlainKernel] = field(default_factory=dict)

    def run_nodes(
        self, nodes: Sequence[GraphNode], known: Mapping[GraphValue, Array]
    ) -> dict[GraphValue, Array]:
        """All values that nodes make from known ones, with these."""
        values = dict(known)
        for node in nodes:
            made = self._run_node(node, [values[value] for value in node.operands])
            values.update(zip(node.outputs, made, strict=True))
        return values

    def run_graph(self, graph: Graph, inputs: Sequence[Array]) -> dict[GraphValue, Array]:
        """All values of a graph."""
        values = {**graph.constants, **dict(zip(graph.inputs, inputs, strict=True))}
        for node in graph.nodes:
            if is_external(node):
                made = _run_external(node, graph.constants, values)
                values.update(zip(node.outputs, made, strict=True))
            else:
                values = self.run_nodes([node], values)
        return values

    def _run_node(self, node: GraphNode, arrays: Sequence[Array]) -> list[Array]:
        """The results of one node for its operands."""
        if is_view(node):
            return [np.asarray(arrays[0]).reshape(node.outputs[0].type.extents)]
        kernel = self._kernel(node)
        operands = dict(zip(node.operands, arrays, strict=True))
        return kernel(list(operands.values()))

    def _kernel(self, node: GraphNode) -> _PlainKernel:
        order = {value: n for n, value in enumerate(dict.fromkeys(node.operands))}
        pattern = tuple(None if v is None else (order[v], str(v.type)) for v in node.inputs)
        key = (node.op, pattern, json.dumps(node.attrs, sort_keys=True))
        if key not in self._kernels:
            self._kernels[key] = self._made(node)
        return self._kernels[key]

    def _made(self, node: GraphNode) -> _PlainKernel:
        if self.is_wide:
            try:
                return _plain_kernel(node, _widened)
            except TilewrightError:
                pass  # an operator for some types only
        return _plain_kernel(node, lambda kind: kind)


def _run_external(
    node: GraphNode, constants: Mapping[GraphValue, Array], values: Mapping[GraphValue, Array]
) -> Sequence[Array]:
    """By the library that the node names, in the types that it says."""
    prepared = prepare_node(node, constants)
    return prepared.function([values[v].astype(to_numpy(v.type.dtype)) for v in prepared.inputs])


def _widened(kind: TensorType) -> TensorType:
    return TensorType(kind.shape, _WIDE) if DType(kind.dtype).is_float else kind


def _plain_kernel(node: GraphNode, retyped: Any) -> _PlainKernel:
    new = {v: GraphValue(v.name, retyped(v.type)) for v in dict.fromkeys(node.operands)}
    inputs = tuple(None if value is None else new[value] for value in node.inputs)
    types = result_types(node.op, [None if v is None else v.type for v in inputs], node.attrs)
    outputs = tuple(
        GraphValue(value.name, kind) for value, kind in zip(node.outputs, types, strict=True)
    )
    plain = GraphNode(node.op, inputs, outputs, node.attrs)
    func = lower_group(FusedGroup((plain,), tuple(new.values()), outputs))
    module = build(func, "llvm")
    given = tuple(value.type for value in new.values())
    return _PlainKernel(module[module.entry_name], given, types)
