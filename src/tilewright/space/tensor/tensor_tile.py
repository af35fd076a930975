"""What a tensor instruction asks of the loops around it: a unit of rows x lanes x depth.

An instruction computes `out[rows, lanes] += left[rows, depth] * right[depth, lanes]`, with one row
or several, and with the right operand in an order of its own. All of that is read off its
description, so that an instruction needs no more than to be registered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.ir import (
    BufferLoad,
    BufferStore,
    DType,
    IntImm,
    IterType,
    IterVar,
    Node,
    PrimExpr,
    Var,
    post_order_visit,
    substitute,
    uses_var,
)
from tilewright.ir.tensor_intrin import TensorIntrin, description_nest


@dataclass(frozen=True)
class Operand:
    """A buffer of an instruction."""

    dtype: DType
    indices: tuple[PrimExpr, ...]  # in terms of the iterators of the description
    scope: str


@dataclass(frozen=True)
class TensorTile:
    """An instruction as a unit of work; rows are 1 where it makes a single vector."""

    intrin: str
    iters: tuple[IterVar, ...]  # of the description, in the order of its loops
    lane: Var
    row: Var | None
    depth_iter: Var
    out: Operand
    left: Operand
    right: Operand

    @property
    def lanes(self) -> int:
        """Results side by side."""
        return self._extent(self.lane)

    @property
    def rows(self) -> int:
        """Rows of results."""
        return 1 if self.row is None else self._extent(self.row)

    @property
    def depth(self) -> int:
        """Products in each result."""
        return self._extent(self.depth_iter)

    def right_indices(self, lane: PrimExpr, depth: PrimExpr) -> tuple[PrimExpr, ...]:
        """Where an element of the right operand lies within a unit."""
        values: Mapping[Var, PrimExpr] = {self.lane: lane, self.depth_iter: depth}
        return tuple(substitute(index, values) for index in self.right.indices)

    def _extent(self, var: Var) -> int:
        (iter_var,) = (iter_var for iter_var in self.iters if iter_var.var is var)
        return _extent(iter_var)

    @staticmethod
    def of(intrin: TensorIntrin) -> TensorTile | None:
        """The unit of an instruction; None if it computes something else."""
        loops, realize = description_nest(intrin.desc)
        block = realize.block
        if not isinstance(block.body, BufferStore):
            return None
        out = Operand(block.body.buffer.dtype, block.body.indices, block.body.buffer.scope)
        loads = _loads(block.body.value, block.body)
        if len(loads) != 2:
            return None
        left, right = (Operand(x.buffer.dtype, x.indices, x.buffer.scope) for x in loads)
        spatial = [v.var for v in block.iter_vars if v.iter_type is IterType.DATA_PAR]
        depth = [v.var for v in block.iter_vars if v.iter_type is IterType.COMM_REDUCE]
        lanes = [v for v in spatial if _uses(right, v) and not _uses(left, v)]
        rows = [v for v in spatial if _uses(left, v) and not _uses(right, v)]
        if len(lanes) != 1 or len(depth) != 1 or len(rows) > 1 or len(spatial) != 1 + len(rows):
            return None
        if math.prod(_extent(v) for v in block.iter_vars) == 0 or len(loops) != len(spatial) + 1:
            return None
        row = rows[0] if rows else None
        return TensorTile(intrin.name, block.iter_vars, lanes[0], row, depth[0], out, left, right)


def _loads(value: PrimExpr, store: BufferStore) -> list[BufferLoad]:
    """The operands of a product that is added to what is there, from left to right."""
    found: list[BufferLoad] = []

    def look(node: Node) -> None:
        if isinstance(node, BufferLoad) and node.buffer is not store.buffer:
            found.append(node)

    post_order_visit(value, look)
    return found


def _uses(operand: Operand, var: Var) -> bool:
    return any(uses_var(index, lambda other: other is var) for index in operand.indices)


def _extent(iter_var: IterVar) -> int:
    extent = iter_var.dom.extent if iter_var.dom is not None else None
    return extent.value if isinstance(extent, IntImm) else 0
