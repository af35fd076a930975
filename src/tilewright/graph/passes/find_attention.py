"""Two products with a softmax between them are attention, which has a kernel of its own.

Exporters write it as `matmul(softmax(matmul(q, k.T) * scale + mask), v)`, with the scale before or
behind the first product, on one operand or in equal parts on both, and perhaps with zeros for rows
that see nothing. A query that sees no key gets zeros, as in PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.matching import Matcher, axes_of
from tilewright.graph.rewriting import Rewriting, rewrite


def find_attention(graph: Graph) -> Graph:
    """The graph with attention as one node each."""
    matcher = Matcher(graph)

    def replace(new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
        found = _match(matcher, node) if node.op == "matmul" else None
        if found is None:
            return None
        query, value = new.translated(found.query), new.translated(found.value)
        key = new.call("transpose", new.translated(found.turned_key), axes=found.key_axes)
        mask = None if found.mask is None else new.translated(found.mask)
        made = new.call(
            "nn.attention", query, key, value, mask, source=node.source,
            is_causal=False, scale=found.scale,
        )  # fmt: skip
        return (made,) if made.type == node.outputs[0].type else None

    return rewrite(graph, replace)


@dataclass(frozen=True)
class _Attention:
    query: GraphValue
    turned_key: GraphValue  # what the transposition of the keys was made of
    key_axes: list[int]
    value: GraphValue
    mask: GraphValue | None
    scale: float


def _match(matcher: Matcher, node: GraphNode) -> _Attention | None:
    weights, value = node.operands
    softmax = _softmax(matcher, weights)
    if softmax is None:
        return None
    scores, mask = _without_mask(matcher, softmax.operands[0])
    scores, scale = _without_scale(matcher, scores)
    product = matcher.only(scores, "matmul")
    if product is None:
        return None
    query, left = _without_scale(matcher, product.operands[0])
    turned, right = _without_scale(matcher, product.operands[1])
    transpose = matcher.maker(turned, "transpose")
    if transpose is None or not _have_one_batch(query, turned, value):
        return None
    *outer, depth, keys = axes_of(transpose)
    return _Attention(
        query, transpose.operands[0], [*outer, keys, depth], value, mask, scale * left * right
    )


def _softmax(matcher: Matcher, weights: GraphValue) -> GraphNode | None:
    """The softmax over the last axis behind weights, perhaps with zeros instead of NaN."""
    rows = len(weights.type.shape)
    softmax = matcher.only(weights, "nn.softmax")
    where = matcher.only(weights, "where")
    if softmax is None and where is not None:
        condition, number, own = where.inputs
        isnan = matcher.only(condition, "isnan")
        is_ours = isnan is not None and isnan.operands[0] is own and matcher.scalar(number) == 0
        softmax = matcher.maker(own, "nn.softmax") if is_ours else None
    if softmax is None or softmax.attrs.get("axis", -1) % rows != rows - 1 or rows < 3:
        return None
    return softmax


def _without_mask(matcher: Matcher, scores: GraphValue) -> tuple[GraphValue, GraphValue | None]:
    """Scores, and what is added to them."""
    add = matcher.only(scores, "add")
    if add is None:
        return scores, None
    for own, mask in (add.operands, add.operands[::-1]):
        is_product = matcher.only(own, "matmul", "multiply", "divide") is not None
        if is_product and own.type == scores.type and len(mask.type.shape) <= len(own.type.shape):
            return own, mask
    return scores, None


def _without_scale(matcher: Matcher, value: GraphValue) -> tuple[GraphValue, float]:
    """A value before it was multiplied by numbers, and their product."""
    scale = 1.0
    while (node := matcher.only(value, "multiply", "divide")) is not None:
        found = matcher.with_scalar(node)
        if found is None or found[0].type != value.type or found[1] == 0:
            break
        value = found[0]
        scale = scale * found[1] if node.op == "multiply" else scale / found[1]
    return value, scale


def _have_one_batch(*values: GraphValue) -> bool:
    first = values[0].type
    return all(
        value.type.shape[:-2] == first.shape[:-2] and value.type.dtype == first.dtype
        for value in values
    )
