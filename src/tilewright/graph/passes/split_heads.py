"""Attention reads rows of tokens as linear layers leave them, so that nothing is transposed.

`nn.attention` takes tensors with heads in front. Where those are transpositions of rows in which
heads stand side by side, `nn.head_attention` takes the rows themselves. Elsewhere all that stands
in front is a batch, of one head each.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.matching import Matcher, axes_of
from tilewright.graph.rewriting import Rewriting, rewrite

_HEADS_BACK = [0, 2, 1, 3]


def split_heads(graph: Graph) -> Graph:
    """The graph with attention on rows of tokens, where a CPU has a kernel for it."""
    return attention_on_rows(graph, _has_a_kernel)


def attention_on_rows(graph: Graph, is_wanted: Callable[[GraphNode], bool]) -> Graph:
    """The graph with some of its attention on rows of tokens."""
    matcher = Matcher(graph)

    def replace(new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
        if node.op != "nn.attention" or not has_one_width(node) or not is_wanted(node):
            return None
        rows = [_rows_behind(matcher, value) for value in node.inputs[:3]]
        if all(value is not None for value in rows):
            return _on_rows(new, node, [value for value in rows if value is not None])
        return _as_batch(new, node)

    return rewrite(graph, replace)


def has_one_width(node: GraphNode) -> bool:
    """True for static tensors whose values are as deep as their keys."""
    query, _, value = node.operands[:3]
    types = [operand.type for operand in node.operands]
    return (
        all(kind.is_static and math.prod(kind.extents) > 0 for kind in types)
        and query.type.extents[-1] == value.type.extents[-1]
        and len(query.type.shape) >= 3
    )


def _has_a_kernel(node: GraphNode) -> bool:
    return node.operands[1].type.dtype == "float32"


def _rows_behind(matcher: Matcher, value: GraphValue | None) -> GraphValue | None:
    """Rows of which a value with heads in front was made: `(batch, tokens, heads, depth)`."""
    transpose = matcher.maker(value, "transpose")
    if transpose is None or list(axes_of(transpose)) != _HEADS_BACK:
        return None
    return transpose.operands[0]


def _on_rows(new: Rewriting, node: GraphNode, rows: list[GraphValue]) -> tuple[GraphValue, ...]:
    _, _, heads, depth = rows[0].type.extents
    operands = [
        new.call(
            "reshape", new.translated(value), newshape=[*value.type.extents[:2], heads * depth]
        )
        for value in rows
    ]
    mask = _mask_of(new, node)
    made = new.call(
        "nn.head_attention", *operands, mask, source=node.source, **_attrs(node, heads, depth)
    )
    return (new.call("transpose", made, axes=_HEADS_BACK),)


def _as_batch(new: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
    """Whatever stands before tokens and features is one axis, and each of it has one head."""
    query = node.operands[0].type.extents
    batch = math.prod(query[:-2])
    mask = _mask_of(new, node)
    if mask is not None:
        outer = mask.type.extents[:-2]
        if math.prod(outer) not in (1, batch):
            return None
        shape = [math.prod(outer), 1, *([1, 1, *mask.type.extents][-2:])]
        mask = new.call("reshape", mask, newshape=shape)
    operands = [
        new.call("reshape", new.translated(value), newshape=[batch, *value.type.extents[-2:]])
        for value in node.operands[:3]
    ]
    made = new.call(
        "nn.head_attention", *operands, mask, source=node.source, **_attrs(node, 1, query[-1])
    )
    return (new.call("reshape", made, newshape=list(node.outputs[0].type.extents)),)


def _mask_of(new: Rewriting, node: GraphNode) -> GraphValue | None:
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    return None if mask is None else new.translated(mask)


def _attrs(node: GraphNode, heads: int, depth: int) -> dict[str, object]:
    return {
        "heads": heads, "depth": depth, "is_causal": bool(node.attrs.get("is_causal", False)),
        "scale": node.attrs.get("scale"),
    }  # fmt: skip
