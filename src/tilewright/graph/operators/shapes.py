"""Operators that move elements about: shapes, axes, parts, indices."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import ir, te, topi
from tilewright.graph.operator import operator
from tilewright.te import Tensor

_OF_TOPI = [
    "reshape", "transpose", "squeeze", "expand_dims", "strided_slice", "broadcast_to", "tile",
    "repeat", "flip", "take", "gather_nd", "scatter_elements", "scatter_nd", "full", "arange",
    "sort", "argsort", "topk", "split",
]  # fmt: skip

for _name in _OF_TOPI:
    operator(_name)(getattr(topi, _name))

operator("nn.pad")(topi.nn.pad)
operator("nn.flatten")(topi.nn.flatten)


@operator("gather")
def gather(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """Elements at indices along an axis, one for each index."""
    return topi.gather(x, axis, indices)


@operator("one_hot")
def one_hot(indices: Tensor, depth: int, axis: int = -1, dtype: str = "bool") -> Tensor:
    """1 at each index along a new axis, elsewhere 0."""
    return topi.one_hot(indices, 1, 0, depth, axis, dtype)


@operator("trilu")
def trilu(x: Tensor, k: int = 0, upper: bool = True) -> Tensor:
    """The elements on one side of a diagonal of each matrix, and zeros on the other."""

    def element(*i: ir.Var) -> ir.ExprLike:
        distance = i[-1] - i[-2]
        kept = distance >= k if upper else distance <= k
        return ir.Select(kept, x(*i), ir.const(0, x.dtype))

    return te.compute(x.shape, element, "T_trilu", tag=topi.axes.ELEMENTWISE)


@operator("reverse_sequence")
def reverse_sequence(x: Tensor, lengths: Tensor, time_axis: int, batch_axis: int) -> Tensor:
    """The first elements along an axis in reverse order, as many as there are for each batch."""

    def element(*i: ir.Var) -> ir.ExprLike:
        length = ir.cast("int32", lengths(i[batch_axis]))
        own: list[ir.ExprLike] = list(i)
        step = i[time_axis]
        last = x.shape[time_axis] - 1
        turned = ir.minimum(ir.maximum(length - 1 - step, 0), last)
        own[time_axis] = ir.Select(step < length, turned, step)
        return x(*own)

    return te.compute(x.shape, element, "T_reverse_sequence", tag=topi.axes.INJECTIVE)


@operator("resample")
def resample(x: Tensor, indices: Tensor, weights: Tensor, axis: int) -> Tensor:
    """Weighted sums of elements along an axis: `sum_t weights[i, t] * x[indices[i, t]]`."""
    tap = te.reduce_axis((0, indices.shape[1]), "tap")
    shape = [*x.shape[:axis], indices.shape[0], *x.shape[axis + 1 :]]

    def element(*i: ir.Var) -> ir.ExprLike:
        own: list[ir.ExprLike] = list(i)
        own[axis] = indices(i[axis], tap.var)
        return te.sum(x(*own) * weights(i[axis], tap.var), axis=tap)

    return te.compute(shape, element, "T_resample")


@operator("concatenate")
def concatenate(*tensors: Tensor, axis: int = 0) -> Tensor:
    """Tensors one behind the other."""
    return topi.concatenate(tensors, axis)


@operator("stack")
def stack(*tensors: Tensor, axis: int = 0) -> Tensor:
    """Tensors one behind the other, along a new axis."""
    return topi.stack(tensors, axis)


@operator("einsum")
def einsum(*tensors: Tensor, subscripts: str) -> Tensor:
    """A sum of products by letters."""
    return topi.einsum(subscripts, *tensors)


@operator("layout_transform")
def layout_transform(x: Tensor, axes: Sequence[int]) -> Tensor:
    """A transposition that a choice of layouts asked for."""
    return topi.transpose(x, axes)
