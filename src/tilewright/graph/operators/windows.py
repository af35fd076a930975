"""Operators on windows that pools have not: sums, and the places of maxima."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import ir, te
from tilewright.graph.operator import operator
from tilewright.ir.intrinsics import if_then_else, lower_limit
from tilewright.te import Tensor
from tilewright.topi.accumulate import sum_types
from tilewright.topi.axes import constant_extent, extent_product
from tilewright.topi.reduction import index_reducer


@dataclass(frozen=True)
class _Windows:
    """Windows on the axes of a tensor from the third on."""

    x: Tensor
    kernel: Sequence[int]
    strides: Sequence[int]
    dilation: Sequence[int]
    padding: Sequence[int]  # before each axis
    output: Sequence[int]

    @property
    def shape(self) -> list[ir.PrimExpr]:
        """Of the result."""
        return [*self.x.shape[:2], *map(ir.const, self.output)]

    def axes(self) -> list[ir.IterVar]:
        """The axes of a window."""
        return [te.reduce_axis((0, extent), f"k{d}") for d, extent in enumerate(self.kernel)]

    def places(self, at: Sequence[ir.Var], axes: Sequence[ir.IterVar]) -> list[ir.PrimExpr]:
        """Where an element of a window lies in the data, or outside of it."""
        return [
            at[d] * self.strides[d] + axis.var * self.dilation[d] - self.padding[d]
            for d, axis in enumerate(axes)
        ]

    def value(
        self, lead: Sequence[ir.Var], places: Sequence[ir.PrimExpr], border: ir.PrimExpr
    ) -> ir.PrimExpr:
        """An element of the data, or what stands outside of it."""
        inside = [
            condition
            for place, extent in zip(places, self.x.shape[2:], strict=True)
            for condition in (place >= 0, place < extent)
        ]
        return if_then_else(ir.logical_and(*inside), self.x(*lead, *places), border)


@operator("nn.sum_pool")
def sum_pool(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    output: Sequence[int],
) -> Tensor:
    """The sum of each window."""
    windows = _Windows(x, kernel, strides, dilation, padding, output)
    axes = windows.axes()
    types = sum_types(None, x)

    def element(n: ir.Var, c: ir.Var, *at: ir.Var) -> ir.ExprLike:
        border = ir.const(0, x.dtype)
        value = windows.value((n, c), windows.places(at, axes), border)
        return te.sum(value.astype(types.accumulator), axis=axes)

    return types.finish(te.compute(windows.shape, element, "T_sum_pool"))


@operator("nn.max_pool_indices")
def max_pool_indices(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    output: Sequence[int],
    column_major: bool = False,
) -> Tensor:
    """The place of the largest element of each window in the whole tensor, counted in a row."""
    windows = _Windows(x, kernel, strides, dilation, padding, output)
    axes = windows.axes()
    reducer = index_reducer(ir.greater, lower_limit, False)

    def pair(n: ir.Var, c: ir.Var, *at: ir.Var) -> Any:
        places = windows.places(at, axes)
        extents = list(x.shape[2:])
        value = windows.value((n, c), places, lower_limit(x.dtype))
        inside: ir.PrimExpr = ir.const(0)
        order = range(len(places))
        for d in reversed(order) if column_major else order:
            inside = inside * extents[d] + places[d]
        flat = (n * x.shape[1] + c) * extent_product(extents) + inside
        return reducer((ir.cast("int64", flat), value), axis=axes)

    pairs: Any = te.compute(windows.shape, pair, "T_max_pool_pairs")
    places: Tensor = te.compute(windows.shape, lambda *i: pairs[0](*i), "T_max_pool_indices")
    return places


@operator("nn.col2im")
def col2im(
    x: Tensor,
    image: Sequence[int],
    block: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
) -> Tensor:
    """Columns of windows put back into an image, added where windows overlap.

    `padding` are all begins, then all ends.
    """
    rank = len(block)
    counts = [
        (image[d] + padding[d] + padding[rank + d] - dilation[d] * (block[d] - 1) - 1) // strides[d]
        + 1
        for d in range(rank)
    ]
    size = 1
    for extent in block:
        size *= extent
    window = [te.reduce_axis((0, extent), f"k{d}") for d, extent in enumerate(block)]

    def element(n: ir.Var, c: ir.Var, *at: ir.Var) -> ir.ExprLike:
        conditions: list[ir.PrimExpr] = []
        tap: ir.PrimExpr = ir.const(0)
        column: ir.PrimExpr = ir.const(0)
        for d in range(rank):
            reached = at[d] + padding[d] - window[d].var * dilation[d]
            place = ir.floordiv(reached, strides[d])
            exact = ir.floormod(reached, strides[d]).equal(0)
            conditions += [exact, place >= 0, place < counts[d]]
            tap = tap * block[d] + window[d].var
            column = column * counts[d] + place
        value = x(n, c * size + tap, column)
        kept = if_then_else(ir.logical_and(*conditions), value, ir.const(0, x.dtype))
        return te.sum(kept, axis=window)

    shape = (
        x.shape[0],
        ir.const(constant_extent(x.shape[1], "col2im") // size),
        *map(ir.const, image),
    )
    return te.compute(shape, element, "T_col2im")
