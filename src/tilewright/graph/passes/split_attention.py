"""Attention on GPUs: one kernel, or two products with a softmax between.

Both read what linear layers wrote, where it lies: the results of the three that make queries, keys
and values stand side by side, and heads side by side in each, so that nothing is transposed.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.passes.split_heads import attention_on_rows
from tilewright.graph.rewriting import Rewriting, rewrite
from tilewright.space.gpu.attention_kernel import AttentionShape, why_no_attention_kernel

_TURNED = [0, 2, 1, 3]  # heads before tokens, and back


def rows_for_gpu(graph: Graph) -> Graph:
    """The graph with attention without a mask on rows of tokens."""
    return attention_on_rows(graph, _is_plain)


def _is_plain(node: GraphNode) -> bool:
    return len(node.operands) == 3


def split_attention(graph: Graph) -> Graph:
    """The graph with attention that no kernel serves as products."""

    def replace(new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
        if node.op == "nn.head_attention" and attention_shape(node) is None:
            return (_in_parts(new, node, _parts_of_rows(new, node)),)
        if node.op == "nn.attention" and _is_plain(node) and len(node.operands[0].type.shape) == 4:
            turned = [new.call("transpose", new.translated(x), axes=_TURNED) for x in node.operands]
            made = _in_parts(new, node, [(value, 0) for value in turned])
            return (new.call("transpose", made, source=node.source, axes=_TURNED),)
        return None

    return rewrite(graph, replace)


def attention_shape(node: GraphNode) -> AttentionShape | None:
    """What the kernel for attention has to know of a node; None if it cannot serve it."""
    query, key = node.operands[0].type, node.operands[1].type
    heads, depth = node.attrs["heads"], node.attrs["depth"]
    is_merged = len(set(node.operands)) == 1 and _count(node, node.operands[0]) == 3
    is_apart = all(_count(node, value) == 1 for value in node.operands)
    if why_no_attention_kernel(depth, query.dtype) or not (is_merged or is_apart):
        return None
    scale = node.attrs.get("scale")
    return AttentionShape(
        query.extents[0], query.extents[1], key.extents[1], heads, depth,
        depth**-0.5 if scale is None else scale,
        bool(node.attrs.get("is_causal", False)),
        _parts(node) if is_merged else None,
    )  # fmt: skip


def _count(node: GraphNode, rows: GraphValue) -> int:
    """How many tensors of heads stand side by side in rows."""
    return int(rows.type.extents[-1] // (node.attrs["heads"] * node.attrs["depth"]))


def _parts(node: GraphNode) -> tuple[int, int, int]:
    """Which of them are queries, keys and values."""
    width = node.attrs["heads"] * node.attrs["depth"]
    query, key, value = node.attrs.get("offsets") or (0, 0, 0)
    return query // width, key // width, value // width


def _parts_of_rows(new: Rewriting, node: GraphNode) -> list[tuple[GraphValue, int]]:
    """Rows with axes for heads, and for the tensors side by side if there are several."""
    heads = [node.attrs["heads"], node.attrs["depth"]]
    found = []
    for value, part in zip(node.operands, _parts(node), strict=True):
        count = _count(node, value)
        outer = [*value.type.extents[:2], *([count] if count > 1 else [])]
        found.append((new.call("reshape", new.translated(value), newshape=[*outer, *heads]), part))
    return found


def _in_parts(
    new: Rewriting, node: GraphNode, operands: Sequence[tuple[GraphValue, int]]
) -> GraphValue:
    """Attention as products of tensors with tokens before heads."""
    (query, first), (key, second), (value, third) = operands
    options = {name: node.attrs[name] for name in ("is_causal", "scale") if name in node.attrs}
    source, dtype = node.source, node.outputs[0].type.dtype
    scores = new.call(
        "nn.attention_scores", query, key, source=source, parts=[first, second], **options
    )
    weights = new.call("nn.attention_weights", scores, source=source, dtype=dtype)
    return new.call("nn.attention_values", weights, value, source=source, part=third)
