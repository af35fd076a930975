"""Widths of the vectors that a kernel moves and converts: a GPU has 16 bytes at most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tilewright import ir
from tilewright.arith.numpy_eval import Values, evaluate_on_arrays
from tilewright.errors import ArithError
from tilewright.nest.kernels import Kernel, Leaf, extent_of

VECTOR_BYTES = 16
_INDEX_BYTES = 4


def vectors_fit(kernel: Kernel) -> bool:
    """True when no vector of the kernel is too wide."""
    return all(_fits(leaf) for leaf in kernel.leaves)


def _fits(leaf: Leaf) -> bool:
    for loop in leaf.loops:
        lanes = extent_of(loop)
        if loop.kind is ir.ForKind.VECTORIZED and lanes is not None and lanes > 1:
            lane = LaneView(leaf.realize.block.body, _bindings(leaf), loop.loop_var, lanes)
            if any(width > VECTOR_BYTES for width in lane.widths()):
                return False
    return True


def _bindings(leaf: Leaf) -> Mapping[ir.Var, ir.PrimExpr]:
    variables = (iter_var.var for iter_var in leaf.realize.block.iter_vars)
    return dict(zip(variables, leaf.realize.iter_values, strict=True))


class LaneView:
    """A statement as the lanes of a vectorised loop see it."""

    def __init__(
        self, body: ir.Stmt, bindings: Mapping[ir.Var, ir.PrimExpr], lane: ir.Var, lanes: int
    ) -> None:
        self._body = body
        self._bindings = bindings
        self._lane = lane
        self._lanes = lanes

    def widths(self) -> Iterator[int]:
        """Bytes of every vector that the statement moves, converts or indexes with."""
        nodes: list[ir.Node] = []
        ir.post_order_visit(self._body, nodes.append)
        for node in nodes:
            match node:
                case ir.BufferStore(value=value, indices=indices):
                    yield self._lanes * value.dtype.bits // 8
                    yield from self._index_widths(indices)
                case ir.BufferLoad(indices=indices) if self._varies(node):
                    yield self._lanes * node.dtype.bits // 8
                    yield from self._index_widths(indices)
                case ir.Cast() if self._varies(node):
                    yield self._lanes * node.dtype.bits // 8

    def _varies(self, expr: ir.PrimExpr) -> bool:
        bound = ir.substitute(expr, self._bindings)
        return any(var is self._lane for var in ir.free_vars(bound))

    def _index_widths(self, indices: tuple[ir.PrimExpr, ...]) -> Iterator[int]:
        """An access with gaps between its lanes needs a vector of indices."""
        *outer, last = indices or (ir.const(0),)
        if self._has_gaps(last, 1) or any(self._has_gaps(index, 0) for index in outer):
            yield self._lanes * _INDEX_BYTES

    def _has_gaps(self, index: ir.PrimExpr, step: int) -> bool:
        bound = ir.substitute(index, self._bindings)
        values: dict[ir.Var, Values] = {var: np.zeros(1, np.int64) for var in ir.free_vars(bound)}
        if self._lane not in values:
            return False
        values[self._lane] = np.arange(self._lanes)
        try:
            steps = np.diff(evaluate_on_arrays(bound, values))
        except ArithError:
            return False
        is_even = bool((steps == steps[0]).all())
        return is_even and int(steps[0]) != step
