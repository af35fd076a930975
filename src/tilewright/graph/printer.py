"""Graphs as text: a Python function whose calls are nodes; types stand in comments.

def main(x: float32[1, 8]):
    w = constant(float32[16, 8])
    dense = nn.dense(x, w)  # float32[1, 16]
    return dense
"""

from __future__ import annotations

import math
from typing import Any

from tilewright.graph.graph import Graph, GraphNode, GraphValue, TensorType


def print_graph(graph: Graph) -> str:
    """The text of a graph; constants are given by type, their numbers travel beside it."""
    inputs = ", ".join(map(_declared, graph.inputs))
    lines = [f"def {graph.name}({inputs}):"]
    for value in graph.constants:
        lines.append(f"    {value.name} = constant({_type(value.type)})")
    for node in graph.nodes:
        lines.append(f"    {_call(node)}")
    lines.append(f"    return {', '.join(value.name for value in graph.outputs)}")
    return "\n".join(lines) + "\n"


def _declared(value: GraphValue) -> str:
    return f"{value.name}: {_type(value.type)}"


def _type(kind: TensorType) -> str:
    return str(kind) if kind.shape else f"{kind.dtype}[()]"  # Python has no empty brackets


def _call(node: GraphNode) -> str:
    inputs = ["None" if value is None else value.name for value in node.inputs]
    attrs = [f"{name}={_literal(value)}" for name, value in node.attrs.items()]
    results = ", ".join(value.name for value in node.outputs)
    types = ", ".join(str(value.type) for value in node.outputs)
    return f"{results} = {node.op}({', '.join(inputs + attrs)})  # {types}"


def _literal(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"  # Python has no literal for it
    return repr(value)
