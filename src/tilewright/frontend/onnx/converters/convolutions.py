"""Convolutions and transposed convolutions."""

from __future__ import annotations

from typing import Any

from tilewright.errors import GraphError
from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.frontend.onnx.converters.windows import kernel_of, window_of
from tilewright.graph import GraphValue


def plus_bias(node: NodeContext, result: GraphValue, bias: GraphValue | None) -> GraphValue:
    """A result with a number added to each channel."""
    if bias is None:
        return result
    tail = [1] * (len(result.type.shape) - 2)
    return node.call("add", result, node.call("reshape", bias, newshape=[-1, *tail]))


def convolution(node: NodeContext, x: GraphValue, weight: GraphValue) -> GraphValue:
    """The convolution of a node, of an input and weights that stand for its own."""
    options = convolution_options(node, weight)
    return node.call(f"nn.conv{len(options['strides'])}d", x, weight, **options)


def convolution_options(node: NodeContext, weight: GraphValue) -> dict[str, Any]:
    """Strides, dilation, padding and groups of a convolution with these weights."""
    kernel = kernel_of(node, weight)
    rank = len(kernel)
    if not 1 <= rank <= 3:
        raise GraphError(f"windows of {rank} axes are not supported")
    window = window_of(node, kernel)
    return {
        "strides": list(window.strides), "dilation": list(window.dilation),
        "padding": window.padding, "groups": int(node.attr("group", 1)),
    }  # fmt: skip


@converts("Conv")
def _conv(node: NodeContext) -> GraphValue:
    return plus_bias(node, convolution(node, node[0], node[1]), node.optional(2))


@converts("ConvTranspose")
def _conv_transpose(node: NodeContext) -> GraphValue:
    kernel = kernel_of(node, node[1])
    window = window_of(_without(node, "auto_pad"), kernel)
    rank, extra = len(kernel), [int(n) for n in node.attr("output_padding") or [0] * len(kernel)]
    before, after, output = [], [], []
    for d in range(rank):
        reach = (window.kernel[d] - 1) * window.dilation[d] + 1
        full = window.strides[d] * (window.extents[d] - 1) + extra[d] + reach
        cut = _cut(node, d, full, window.extents[d] * window.strides[d])
        first, last = (window.before[d], window.after[d]) if cut is None else cut
        before.append(first)
        after.append(last)
        output.append(full - first - last)
    groups = int(node.attr("group", 1))
    strides, dilation = list(window.strides), list(window.dilation)
    fits = all(
        min(first, last) >= 0 and max(first, last) < size and more < stride
        for first, last, size, more, stride in zip(
            before, after, window.kernel, extra, strides, strict=True
        )
    )
    if fits and groups == max(dilation) == 1 and rank in _TRANSPOSED:
        padding = [*before, *after]
        options = {"strides": strides, "padding": padding, "output_padding": extra}
        result = node.call(_TRANSPOSED[rank], node[0], node[1], **options)
    else:
        result = node.call(
            "nn.conv_transpose", node[0], node[1], strides=strides, dilation=dilation,
            padding=before, output=output, groups=groups,
        )  # fmt: skip
    return plus_bias(node, result, node.optional(2))


# These leave out the zeros that a stride puts between elements.
_TRANSPOSED = {
    1: "nn.conv1d_transpose_ncw", 2: "nn.conv2d_transpose_nchw", 3: "nn.conv3d_transpose_ncdhw",
}  # fmt: skip


def _cut(node: NodeContext, axis: int, full: int, same: int) -> tuple[int, int] | None:
    """What is cut off at both ends if the extent of the result is given; else None."""
    auto = node.attr("auto_pad", "NOTSET")
    wanted = node.attr("output_shape")
    if wanted is None and auto not in ("SAME_UPPER", "SAME_LOWER"):
        return None
    rank = len(node.type(0).shape) - 2
    total = full - (int(wanted[-rank:][axis]) if wanted else same)
    small, large = total // 2, total - total // 2
    return (small, large) if auto == "SAME_UPPER" else (large, small)


def _without(node: NodeContext, name: str) -> NodeContext:
    from dataclasses import replace

    return replace(node, attrs={key: value for key, value in node.attrs.items() if key != name})
