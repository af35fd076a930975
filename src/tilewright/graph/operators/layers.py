"""Layers of networks: products, convolutions, pools, norms, attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import ir, te, topi
from tilewright.graph.operator import operator
from tilewright.ir.annotation_keys import LAYOUT_FREE_PLACEHOLDERS
from tilewright.ir.intrinsics import if_then_else
from tilewright.te import Tensor
from tilewright.topi.accumulate import sum_types
from tilewright.topi.axes import check_extents, constant_extent

_OF_TOPI = [
    "conv1d", "conv2d", "conv3d", "conv1d_transpose_ncw", "conv2d_transpose_nchw",
    "conv3d_transpose_ncdhw", "dense", "matmul", "batch_matmul", "pool1d", "pool2d", "pool3d",
    "global_pool", "adaptive_pool", "softmax", "log_softmax", "layer_norm", "rms_norm",
    "group_norm", "instance_norm", "batch_norm", "attention", "embedding",
    "winograd_conv2d",
]  # fmt: skip

for _name in _OF_TOPI:
    operator(f"nn.{_name}")(getattr(topi.nn, _name))


@operator("matmul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Products of matrices; what stands before the last two axes is stretched to each other."""
    types = sum_types(None, a, b)
    check_extents(a.shape[-1], b.shape[-2], "matmul", "the inner extents")
    batch = topi.broadcast.broadcast_shape(a.shape[:-2], b.shape[:-2], "matmul")
    k = te.reduce_axis((0, a.shape[-1]), "k")

    def element(*i: ir.Var) -> ir.ExprLike:
        of_a, of_b = (_own(i[:-2], tensor.shape[:-2]) for tensor in (a, b))
        return types.dot(a(*of_a, i[-2], k), b(*of_b, k, i[-1]), k)

    shape = [*batch, a.shape[-2], b.shape[-1]]
    free = {LAYOUT_FREE_PLACEHOLDERS: [b]}
    return types.finish(te.compute(shape, element, "T_matmul", "matmul", free))


def _own(indices: Sequence[ir.Var], shape: Sequence[ir.PrimExpr]) -> list[ir.ExprLike]:
    """The indices of an operand that is stretched."""
    kept = indices[len(indices) - len(shape) :]
    return [0 if ir.is_one(extent) else index for index, extent in zip(kept, shape, strict=True)]


@operator("nn.head_attention")
def head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Attention on rows in which heads stand side by side; see `topi.nn.head_attention`."""
    offsets = options.pop("offsets", None) or (0, 0, 0)
    wanted = topi.nn.HeadOptions(offsets=tuple(offsets), **options)
    return topi.nn.head_attention(query, key, value, attn_mask, wanted)


@operator("nn.conv_transpose")
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    output: Sequence[int],
    groups: int = 1,
) -> Tensor:
    """A transposed convolution of any rank, with groups and dilation; `output` are its extents."""
    rank = len(strides)
    types = sum_types(None, x, weight)
    depth = constant_extent(x.shape[1], "conv_transpose") // groups
    width = constant_extent(weight.shape[1], "conv_transpose")
    channel = te.reduce_axis((0, depth), "rc")
    window = [te.reduce_axis((0, extent), f"k{d}") for d, extent in enumerate(weight.shape[2:])]

    def element(n: ir.Var, c: ir.Var, *at: ir.Var) -> ir.ExprLike:
        conditions: list[ir.ExprLike] = []
        source: list[ir.PrimExpr] = []
        for d in range(rank):
            reached = at[d] + padding[d] - window[d].var * dilation[d]
            place = ir.floordiv(reached, strides[d])
            conditions += [
                ir.floormod(reached, strides[d]).equal(0), place >= 0, place < x.shape[2 + d],
            ]  # fmt: skip
            source.append(place)
        own = ir.floordiv(c, width) * depth + channel.var
        value = if_then_else(ir.logical_and(*conditions), x(n, own, *source), ir.const(0, x.dtype))
        factor = weight(own, ir.floormod(c, width), *(axis.var for axis in window))
        return types.dot(value, factor, [channel, *window])

    shape = [x.shape[0], ir.const(width * groups), *map(ir.const, output)]
    return types.finish(te.compute(shape, element, "T_conv_transpose"))
