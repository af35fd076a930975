"""Pools."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.frontend.onnx.converters.windows import SlidingWindow, window_of
from tilewright.graph import GraphValue

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def sliding_window(node: NodeContext) -> SlidingWindow:
    """The window of a pool."""
    return window_of(node, [int(n) for n in node.attr("kernel_shape")])


def pooled(node: NodeContext, window: SlidingWindow, kind: str) -> GraphValue:
    """The first input of a node, pooled."""
    rank = len(window.kernel)
    result = node.call(
        f"nn.pool{rank}d", node[0], kernel=list(window.kernel), stride=list(window.strides),
        dilation=list(window.dilation), padding=window.padding, pool_type=kind,
        ceil_mode=window.ceil_mode, layout=_LAYOUTS[rank],
        count_include_pad=bool(node.attr("count_include_pad", 0)),
    )  # fmt: skip
    shape = node.shape(result)
    wanted = [*shape[:2], *window.output]
    if wanted == shape:
        return result
    zeros, ones = [0] * len(shape), [1] * len(shape)
    return node.call("strided_slice", result, begin=zeros, end=wanted, strides=ones)


@converts("AveragePool")
def _average_pool(node: NodeContext) -> GraphValue:
    return pooled(node, sliding_window(node), "avg")


@converts("MaxPool")
def _max_pool(node: NodeContext) -> Sequence[GraphValue]:
    window = sliding_window(node)
    values = pooled(node, window, "max")
    if len(node.result_names) < 2:
        return (values,)
    is_column_major = bool(node.attr("storage_order", 0))
    options = {**window.options(), "column_major": is_column_major}
    return values, node.call("nn.max_pool_indices", node[0], **options)


@converts("LpPool")
def _lp_pool(node: NodeContext) -> GraphValue:
    dtype, p = node.type(0).dtype, float(node.attr("p", 2))
    powers = node.call("power", node.call("abs", node[0]), node.constant(p, dtype))
    total = node.call("nn.sum_pool", powers, **sliding_window(node).options())
    return node.call("power", total, node.constant(1 / p, dtype))


@converts("MaxUnpool")
def _max_unpool(node: NodeContext) -> GraphValue:
    shape = node.shape(node[0])
    kernel = [int(n) for n in node.attr("kernel_shape")]
    window = window_of(node, kernel)
    grown = [
        (extent - 1) * stride - first - last + size
        for extent, stride, first, last, size in zip(
            window.extents, window.strides, window.before, window.after, kernel, strict=True
        )
    ]
    wanted = node.integers(2) or [*shape[:2], *grown]
    # Indices count through the tensor without the padding that an output shape may ask for.
    own = [*shape[:2], *grown]
    zeros = node.call("full", shape=[_product(own)], dtype=node.type(0).dtype, fill_value=0)
    flat = [node.call("reshape", node[n], newshape=[-1]) for n in (1, 0)]
    placed = node.call("scatter_elements", zeros, *flat, axis=0)
    result = node.call("reshape", placed, newshape=own)
    after = [a - b for a, b in zip(wanted, own, strict=True)]
    if not any(after):
        return result
    return node.call("nn.pad", result, pad_before=[0] * len(own), pad_after=after, pad_value=0.0)


def _product(extents: Sequence[int]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total


@converts("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(node: NodeContext) -> GraphValue:
    axes = [*range(2, len(node.type(0).shape))]
    op = "mean" if node.op_type == "GlobalAveragePool" else "max"
    return node.call(op, node[0], axis=axes, keepdims=True)


@converts("GlobalLpPool")
def _global_lp_pool(node: NodeContext) -> GraphValue:
    dtype, p = node.type(0).dtype, float(node.attr("p", 2))
    axes = [*range(2, len(node.type(0).shape))]
    powers = node.call("power", node.call("abs", node[0]), node.constant(p, dtype))
    total = node.call("sum", powers, axis=axes, keepdims=True)
    return node.call("power", total, node.constant(1 / p, dtype))
