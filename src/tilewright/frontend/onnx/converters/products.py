"""Products of matrices."""

from __future__ import annotations

import math

from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.graph import GraphValue


def product(node: NodeContext, a: GraphValue, b: GraphValue) -> GraphValue:
    """A product as NumPy has it: of vectors, matrices and stacks of them."""
    shape_a, shape_b = node.shape(a), node.shape(b)
    left = node.call("reshape", a, newshape=[1, *shape_a]) if len(shape_a) == 1 else a
    right = node.call("reshape", b, newshape=[*shape_b, 1]) if len(shape_b) == 1 else b
    result = _stacked(node, left, right)
    shape = node.shape(result)
    if len(shape_b) == 1:
        shape = shape[:-1]
    if len(shape_a) == 1:
        shape = [*shape[:-2], *shape[-1:]] if len(shape_b) > 1 else shape[:-1]
    return result if shape == node.shape(result) else node.call("reshape", result, newshape=shape)


def _stacked(node: NodeContext, left: GraphValue, right: GraphValue) -> GraphValue:
    """A product of matrices or stacks of them; with one matrix on the right all rows are alike."""
    shape = node.shape(left)
    if len(right.type.shape) > 2:
        return node.call("matmul", left, right)
    if len(shape) == 2:
        return node.call("nn.matmul", left, right)
    flat = node.call("reshape", left, newshape=[math.prod(shape[:-1]), shape[-1]])
    result = node.call("nn.matmul", flat, right)
    return node.call("reshape", result, newshape=[*shape[:-1], node.shape(right)[1]])


@converts("MatMul")
def _matmul(node: NodeContext) -> GraphValue:
    return product(node, node[0], node[1])


@converts("Gemm")
def _gemm(node: NodeContext) -> GraphValue:
    transposed_a, transposed_b = (bool(node.attr(name, 0)) for name in ("transA", "transB"))
    options = {"transpose_a": transposed_a, "transpose_b": transposed_b}
    result = node.call("nn.matmul", node[0], node[1], **options)
    dtype = result.type.dtype
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    if alpha != 1.0:
        result = node.call("multiply", result, node.constant(alpha, dtype))
    added = node.optional(2)
    if added is None:
        return result
    if beta != 1.0:
        added = node.call("multiply", added, node.constant(beta, dtype))
    return node.call("add", result, added)


@converts("Einsum")
def _einsum(node: NodeContext) -> GraphValue:
    subscripts = "".join(str(node.attr("equation")).split())
    return node.call("einsum", *node.inputs, subscripts=subscripts)
