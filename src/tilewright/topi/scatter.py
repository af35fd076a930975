"""Operators that write elements where indices say: scatter_elements, scatter_nd.

Negative indices count from the end. Updates whose indices lie outside are dropped. Where several
updates meet, they are applied one after another in row-major order, so the last one wins.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tilewright import ir, te
from tilewright.errors import TensorExpressionError
from tilewright.ir.builder import BufferVar, IRBuilder
from tilewright.te import Tensor
from tilewright.topi import axes as ax, index_bounds as bounds
from tilewright.topi.statements import nested_loops

Indices: TypeAlias = Sequence[ir.ExprLike]
Change: TypeAlias = Callable[[Indices, ir.PrimExpr], None]  # applies one update to an element
Apply: TypeAlias = Callable[[IRBuilder, list[BufferVar], Change], None]

_COMBINE: dict[str, Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr]] = {
    "update": lambda old, new: new,
    "add": operator.add,
    "mul": operator.mul,
    "min": ir.minimum,
    "max": ir.maximum,
}
_ROUNDED = ("add", "mul")  # these round each time, so narrow floats are kept in a wider type


def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "update"
) -> Tensor:
    """`data`, changed by `out[indices[i, j], j] = updates[i, j]` for axis 0, and so on.

    `reduction` is how an update changes an element: "update" puts it in its place, "add", "mul",
    "min" and "max" combine both. 16-bit floats are added and multiplied in float32.
    """
    what = "scatter_elements"
    at = ax.normalize_axis(axis, data.ndim, what)
    _check(data, indices, updates, reduction, what)
    for name, tensor in (("indices", indices), ("updates", updates)):
        if tensor.ndim != data.ndim:
            raise TensorExpressionError(
                f"{what}: {name} must have {data.ndim} dimensions as data, it has {tensor.ndim}"
            )
    for d in range(data.ndim):
        described = f"the extents of indices and updates at axis {d}"
        ax.check_extents(indices.shape[d], updates.shape[d], what, described)
        if d != at:
            bounds.check_within(indices.shape[d], data.shape[d], d, what)

    def apply(ib: IRBuilder, buffers: list[BufferVar], change: Change) -> None:
        chosen, new = buffers
        with nested_loops(ib, indices.shape, "i") as i:
            own = ib.let("index", bounds.counted_from_start(chosen[tuple(i)], data.shape[at]))
            with ib.if_scope(bounds.is_inside(own, data.shape[at])):
                change((*i[:at], own, *i[at + 1 :]), new[tuple(i)])

    return _scatter(what, reduction, [data, indices, updates], apply)


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "update") -> Tensor:
    """`data`, changed by `out[indices[0, y], ..., indices[m - 1, y], x] = updates[y, x]`.

    `y` stands for the axes of `indices` but the first, and `x` for the axes of `data` from the
    m-th on. `mode` is as `reduction` of `scatter_elements`.
    """
    what = "scatter_nd"
    _check(data, indices, updates, mode, what)
    depth = bounds.index_depth(data, indices, 1, what)
    _check_updates(updates, [*indices.shape[1:], *data.shape[depth:]], what)

    def apply(ib: IRBuilder, buffers: list[BufferVar], change: Change) -> None:
        chosen, new = buffers
        with nested_loops(ib, indices.shape[1:], "y") as y:
            given = [chosen[tuple([d, *y])] for d in range(depth)]
            own = [
                ib.let("index", bounds.counted_from_start(index, extent))
                for index, extent in zip(given, data.shape, strict=False)
            ]
            inside = [bounds.is_inside(index, data.shape[d]) for d, index in enumerate(own)]
            with (
                ib.if_scope(ir.logical_and(*inside)),
                nested_loops(ib, data.shape[depth:], "x") as x,
            ):
                change((*own, *x), new[tuple(y + x)])

    return _scatter(what, mode, [data, indices, updates], apply)


def _scatter(what: str, reduction: str, tensors: Sequence[Tensor], apply: Apply) -> Tensor:
    """A copy of the first tensor, to which `apply` applies the updates of the others."""
    data = tensors[0]
    rounded = data.dtype.is_float and reduction in _ROUNDED
    kind = data.dtype.accumulator if rounded else data.dtype

    def body(ins: list[ir.Buffer], outs: list[ir.Buffer]) -> ir.Stmt:
        ib = IRBuilder()
        old, *others = [ib.buffer_ptr(buffer) for buffer in ins]
        out = ib.buffer_ptr(outs[0])
        memory = out if kind is data.dtype else ib.allocate(kind, data.shape, "wide")
        _copy(ib, old, memory)

        def change(where: Indices, new: ir.PrimExpr) -> None:
            at = tuple(where)
            memory[at] = _COMBINE[reduction](memory[at], new.astype(memory.dtype))

        apply(ib, others, change)
        if memory is not out:
            _copy(ib, memory, out)
        return ib.get()

    tensor: Tensor = te.extern(data.shape, tensors, body, f"T_{what}", str(data.dtype))
    return tensor


def _copy(ib: IRBuilder, source: BufferVar, target: BufferVar) -> None:
    with nested_loops(ib, source.buffer.shape, "c") as c:
        target[tuple(c)] = source[tuple(c)].astype(target.dtype)


def _check(data: Tensor, indices: Tensor, updates: Tensor, reduction: str, what: str) -> None:
    bounds.check_indices(indices, what)
    if updates.dtype is not data.dtype:
        raise TensorExpressionError(
            f"{what}: updates are {updates.dtype!s}, data is {data.dtype!s}; cast one of them"
        )
    ax.check_one_of(reduction, _COMBINE, "reduction", what)
    if data.dtype.is_bool and reduction != "update":
        raise TensorExpressionError(f"{what}: {reduction!r} needs numbers, {data.name} is bool")


def _check_updates(updates: Tensor, expected: Sequence[ir.PrimExpr], what: str) -> None:
    same = len(expected) == updates.ndim and all(map(ax.same_extent, expected, updates.shape))
    if not same:
        raise TensorExpressionError(
            f"{what}: updates must have shape {ax.shape_text(expected)}, "
            f"got {ax.shape_text(updates.shape)}"
        )
