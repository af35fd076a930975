"""Tensor instructions as units of work, of rows x lanes x depth, and the groups they come in.

An instruction computes `out[rows, lanes] += left[rows, depth] * right[depth, lanes]`, with one row
or several, and with the right operand in an order of its own. All of that is read off its
description, so that an instruction needs no more than to be registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tilewright import ir
from tilewright.errors import RegistryError
from tilewright.ir.tensor_intrin import TensorIntrin, description_nest, intrins_for
from tilewright.nest.access import BufferAccess
from tilewright.nest.block_nest import BlockNest, loads_of
from tilewright.nest.loops import known_extent


@dataclass(frozen=True)
class TensorTile:
    """An instruction as a unit of work; rows are 1 where it makes a single vector."""

    intrin: str
    iters: tuple[ir.IterVar, ...]  # of the description, in the order of its loops
    lane: ir.Var
    row: ir.Var | None
    depth_iter: ir.Var
    # Operands, over the iterators of the description.
    out: BufferAccess
    left: BufferAccess
    right: BufferAccess

    @property
    def lanes(self) -> int:
        """Results side by side."""
        return self._iter_extent(self.lane)

    @property
    def rows(self) -> int:
        """Rows of results."""
        return 1 if self.row is None else self._iter_extent(self.row)

    @property
    def depth(self) -> int:
        """Products in each result."""
        return self._iter_extent(self.depth_iter)

    def right_indices(self, lane: ir.PrimExpr, depth: ir.PrimExpr) -> tuple[ir.PrimExpr, ...]:
        """Where an element of the right operand lies within a unit."""
        values: Mapping[ir.Var, ir.PrimExpr] = {self.lane: lane, self.depth_iter: depth}
        indices = [index.expr(self.lane.dtype) for index in self.right.indices]
        return tuple([ir.substitute(index, values) for index in indices])

    def _iter_extent(self, var: ir.Var) -> int:
        (iter_var,) = (iter_var for iter_var in self.iters if iter_var.var is var)
        return known_extent(iter_var) or 0

    @staticmethod
    @lru_cache(maxsize=256)
    def of(intrin: TensorIntrin) -> TensorTile | None:
        """The unit of an instruction; None if it computes something else."""
        loops, realize = description_nest(intrin.desc)
        block = realize.block
        if not isinstance(block.body, ir.BufferStore):
            return None
        nest, out = BlockNest(block), BufferAccess.at(block.body.buffer, block.body.indices)
        operands = [load for load in loads_of(block.body.value) if load.buffer is not out.buffer]
        if len(operands) != 2:
            return None
        left, right = operands
        spatial, depth = ([nest.iters[n] for n in own] for own in (nest.spatial, nest.depth))
        lanes = [v for v in spatial if right.uses(v) and not left.uses(v)]
        rows = [v for v in spatial if left.uses(v) and not right.uses(v)]
        if len(lanes) != 1 or len(depth) != 1 or len(rows) > 1 or len(spatial) != 1 + len(rows):
            return None
        if not all(nest.extents) or len(loops) != len(spatial) + 1:
            return None
        row = rows[0] if rows else None
        return TensorTile(intrin.name, block.iter_vars, lanes[0], row, depth[0], out, left, right)


MEMORY: Final = ("global", "local")  # scopes that any code can set and read


@dataclass(frozen=True)
class TensorGroup:
    """The instructions of a computation: one that sums up and, where sums live in a place of their
    own, one that sets them to zero and one that stores them."""

    compute: str
    fill: str | None = None
    store: str | None = None

    @staticmethod
    def of(given: str | Mapping[str, str]) -> TensorGroup:
        """A group by the names of its instructions, or by that of the one that sums up."""
        group = TensorGroup(given) if isinstance(given, str) else TensorGroup(**given)
        for name in (group.compute, group.fill, group.store):
            if name is not None:
                TensorIntrin.get(name)  # raises if there is no such instruction
        tile = group.tile
        if tile is None or tile.out.buffer.scope in MEMORY or group.fill is not None:
            return group
        return TensorGroup(
            group.compute,
            _accumulator_intrin(tile, "fill", tile.out.buffer.scope),
            _accumulator_intrin(tile, f"store {tile.out.buffer.scope}", "global"),
        )

    @property
    def tile(self) -> TensorTile | None:
        """The unit of the instruction that sums up; None if it computes something else."""
        intrin = TensorIntrin.get(self.compute)
        return None if intrin is None else TensorTile.of(intrin)


def _accumulator_intrin(tile: TensorTile, kind: str, scope: str) -> str:
    """The instruction that sets or stores the results of another one."""
    out = tile.out.buffer
    for name, computes in intrins_for(kind, str(out.dtype)):
        if (computes.rows, computes.lanes, computes.scope) == (tile.rows, tile.lanes, scope):
            return name
    raise RegistryError(
        f"tensor intrinsic {tile.intrin!r} accumulates in scope {out.scope!r}, for which no "
        f"intrinsic computes {kind!r} of {tile.rows}x{tile.lanes} {out.dtype}; give its name, "
        "too: {'compute': ..., 'fill': ..., 'store': ...}"
    )
