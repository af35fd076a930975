"""Convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.frontend.torch.context import CallContext, converts, pair
from tilewright.frontend.torch.converters.layers import plus_bias
from tilewright.graph import GraphValue


def _batched(
    node: CallContext, value: GraphValue, rank: int, compute: Callable[[GraphValue], GraphValue]
) -> GraphValue:
    """What is computed of a batch; one image without an axis for it is a batch of one."""
    shape = node.shape(value)
    if len(shape) == rank + 2:
        return compute(value)
    made = compute(node.call("reshape", value, newshape=[1, *shape]))
    return node.call("reshape", made, newshape=node.shape(made)[1:])


@converts("conv1d", "conv2d", "conv3d", "convolution")
def _conv(node: CallContext) -> GraphValue:
    weight = node.value("weight")
    rank = len(weight.type.shape) - 2
    compute = _transposed if node.args.get("transposed") else _forward
    return _batched(node, node.value("input"), rank, lambda x: compute(node, x, weight, rank))


def _forward(node: CallContext, x: GraphValue, weight: GraphValue, rank: int) -> GraphValue:
    padding = node.args.get("padding", 0)
    if isinstance(padding, str):
        sides: Any = padding.upper()
    else:
        sides = pair(padding, rank) * 2
    options = {
        "strides": pair(node.args.get("stride", 1), rank),
        "padding": sides,
        "dilation": pair(node.args.get("dilation", 1), rank),
        "groups": int(node.args.get("groups", 1)),
    }
    result = node.call(f"nn.conv{rank}d", x, weight, **options)
    return plus_bias(node, result, node.args.get("bias"), [1] * rank)


# These leave out the zeros that a stride puts between elements.
_TRANSPOSED = {
    1: "nn.conv1d_transpose_ncw", 2: "nn.conv2d_transpose_nchw", 3: "nn.conv3d_transpose_ncdhw",
}  # fmt: skip


def _transposed(node: CallContext, x: GraphValue, weight: GraphValue, rank: int) -> GraphValue:
    names = ("stride", "padding", "output_padding", "dilation")
    strides, cut, extra, dilation = (pair(node[name], rank) for name in names)
    groups, kernel = int(node["groups"]), node.shape(weight)[2:]
    is_plain = groups == max(dilation) == 1 and all(
        side < size and more < stride
        for side, size, more, stride in zip(cut, kernel, extra, strides, strict=True)
    )
    if is_plain:
        options = {"strides": strides, "padding": cut * 2, "output_padding": extra}
        result = node.call(_TRANSPOSED[rank], x, weight, **options)
    else:
        output = node["result_shape"][-rank:]
        result = node.call(
            "nn.conv_transpose", x, weight, strides=strides, dilation=dilation, padding=cut,
            output=output, groups=groups,
        )  # fmt: skip
    return plus_bias(node, result, node.args.get("bias"), [1] * rank)


# --- pools --------------------------------------------------------------------------------------

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


@converts("max_pool2d", "avg_pool1d", "avg_pool2d", "avg_pool3d")
def _pool(node: CallContext) -> GraphValue:
    if node.args.get("divisor_override"):
        raise node.refuse("divisor_override is not supported")
    rank = int(node.op.partition(".")[0][-2])
    return _batched(node, node.value("self"), rank, lambda x: _pooled(node, x, rank))


def _pooled(node: CallContext, x: GraphValue, rank: int) -> GraphValue:
    kernel = pair(node["kernel_size"], rank)
    return node.call(
        f"nn.pool{rank}d", x, kernel=kernel, stride=pair(node.args.get("stride") or kernel, rank),
        dilation=pair(node.args.get("dilation", 1), rank),
        padding=pair(node.args.get("padding", 0), rank) * 2, pool_type=node.op[:3],
        ceil_mode=bool(node.args.get("ceil_mode", False)), layout=_LAYOUTS[rank],
        count_include_pad=bool(node.args.get("count_include_pad", True)),
    )  # fmt: skip


@converts("max_pool2d_with_indices", "max_pool3d_with_indices")
def _pool_with_places(node: CallContext) -> tuple[GraphValue, GraphValue]:
    rank = int(node.op[8])
    value = node.value("self")
    made = _batched(node, value, rank, lambda x: _pooled(node, x, rank))
    return made, _batched(node, value, rank, lambda x: _places(node, x, rank))


def _places(node: CallContext, x: GraphValue, rank: int) -> GraphValue:
    """Where in its channel the largest element of each window lies."""
    kernel = pair(node["kernel_size"], rank)
    flat = node.call(
        "nn.max_pool_indices", x, kernel=kernel,
        strides=pair(node.args.get("stride") or kernel, rank),
        dilation=pair(node.args.get("dilation", 1), rank),
        padding=pair(node.args.get("padding", 0), rank),
        output=[*node["result_shape"][-rank:]],
    )  # fmt: skip
    size = int(np.prod(node.shape(x)[2:]))
    return node.call("floor_mod", flat, node.constant(size, "int64"))


@converts("adaptive_avg_pool2d", "_adaptive_avg_pool2d")
def _adaptive(node: CallContext) -> GraphValue:
    size = pair(node["output_size"])
    return _batched(node, node.value("self"), 2, lambda x: _of_size(node, x, size))


def _of_size(node: CallContext, x: GraphValue, size: Sequence[int | None]) -> GraphValue:
    if list(size) == [1, 1]:
        return node.call("mean", x, axis=[2, 3], keepdims=True)
    extents = node.shape(x)[2:]
    wanted = [own if given is None else given for own, given in zip(extents, size, strict=True)]
    return node.call("nn.adaptive_pool", x, output_size=wanted, pool_type="avg")
