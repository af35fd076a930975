"""Arithmetic with known numbers: what changes nothing goes, and divisions become products.

A division takes a processor several times as long as a product. The reciprocal of a number is
rounded once more, which is less than what any sum around it loses; but where somebody rounds the
quotient, or compares it, the last bit may count.
"""

from __future__ import annotations

import numpy as np

from tilewright.graph.graph import Array, Graph, GraphNode, GraphValue
from tilewright.graph.rewriting import Rewriting, rewrite

# What an operand may be for the other one to be the result; None where no number does that.
_NEUTRAL: dict[str, tuple[int | None, int | None]] = {
    "add": (0, 0), "subtract": (None, 0), "multiply": (1, 1), "divide": (None, 1),
    "power": (None, 1),
}  # fmt: skip
# What makes little of a small difference.
_SMOOTH = frozenset({
    "add", "erf", "exp", "matmul", "multiply", "nn.dense", "nn.matmul", "nn.softmax", "sigmoid",
    "subtract", "tanh",
})  # fmt: skip


def simplify_arithmetic(graph: Graph) -> Graph:
    """The same graph with less to compute for each element."""
    return rewrite(graph, _replaced)


def _replaced(graph: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
    if node.op == "identity":
        return (graph.translated(node.operands[0]),)
    if node.op not in _NEUTRAL or len(node.operands) != 2:
        return None
    operands = [graph.translated(value) for value in node.operands]
    same = _unchanged(graph, node, operands)
    if same is not None:
        return (same,)
    is_smooth = all(reader.op in _SMOOTH for reader in graph.consumers[node.outputs[0]])
    divisor = graph.known(operands[1]) if node.op == "divide" and is_smooth else None
    reciprocal = None if divisor is None else _reciprocal(divisor)
    if reciprocal is None:
        return None
    factor = graph.constant(reciprocal, operands[1].name)
    names = [node.outputs[0].name]
    return graph.calls("multiply", (operands[0], factor), {}, names, node.source)


def _unchanged(graph: Rewriting, node: GraphNode, operands: list[GraphValue]) -> GraphValue | None:
    """The operand that is the result, if there is one."""
    for position, neutral in enumerate(_NEUTRAL[node.op]):
        array, other = graph.known(operands[position]), operands[1 - position]
        if neutral is None or array is None or other.type != node.outputs[0].type:
            continue
        # A row of numbers that are neutral by chance stays, as in other models of the same shape.
        if array.size == 1 and bool((array == neutral).all()):
            return other
    return None


def _reciprocal(divisor: Array) -> Array | None:
    """One over each number, where that is neither lost nor infinite."""
    if divisor.dtype.kind != "f" or divisor.dtype.itemsize < 4:
        return None
    with np.errstate(all="ignore"):
        made = np.asarray(1 / np.asarray(divisor, np.float64)).astype(divisor.dtype)
    small = np.finfo(divisor.dtype).tiny
    is_safe = np.isfinite(made).all() and (np.abs(made) >= small).all()
    return made if bool(is_safe) else None
