"""A product of matrices in AMX tiles, scheduled by hand: what tests and measurements build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tilewright import te
from tilewright.intrin import amx
from tilewright.intrin.x86_pack import pack_name
from tilewright.ir import IRModule, PrimExpr, PrimFunc, floordiv, floormod
from tilewright.schedule import BlockRV, LoopRV, Schedule


@dataclass(frozen=True)
class AmxMatmul:
    """`C[m, n] = sum A[m, k] * B[k, n]` in tiles of `size` x `size` results.

    `row_blocks` is how many parts the rows are cut into: within one, all columns are done before
    the next, so that its rows of A stay in the cache.
    """

    m: int
    n: int
    k: int
    product: amx.Product
    size: int = 32
    row_blocks: int = 1

    def function(self) -> PrimFunc:
        """The program as a user writes it."""
        product = self.product
        a = te.placeholder((self.m, self.k), product.left, name="A")
        b = te.placeholder((self.k, self.n), product.right, name="B")
        k = te.reduce_axis((0, self.k), name="k")
        c = te.compute(
            (self.m, self.n),
            lambda i, j: te.sum(
                a[i, k].astype(product.out) * b[k, j].astype(product.out), axis=[k]
            ),
            name="C",
        )
        return te.create_prim_func([a, b, c])

    def schedule(self) -> Schedule:
        """The program in tiles: every block of it is done by an instruction."""
        sch = Schedule(IRModule({"main": self.function()}))
        block = sch.get_block("C")
        out = self.product.out
        tiles = sch.cache_write(block, 0, amx.TILE_SCOPE)
        self._pack(sch, block)
        outer, inner = self._tile(sch, block, tiles)
        unit = sch.blockize(inner)
        fill = sch.decompose_reduction(unit, outer)
        sch.tensorize(fill, amx.fill_name(self.size, out))
        sch.tensorize(unit, amx.dot_name(self.size, self.product))
        copies = sch.get_loops(tiles)[-2:]
        sch.tensorize(copies[0], amx.store_name(self.size, out))
        return sch

    def arguments(self, extremes: bool = False) -> tuple[Any, Any, Any]:
        """Operands, random or at the ends of their types, and results that must not survive."""
        rng = np.random.default_rng(5)
        kinds = (self.product.left, self.product.right)
        shapes = ((self.m, self.k), (self.k, self.n))
        if self.product.out == "float32":
            left, right = (rng.uniform(-2, 2, shape).astype(ml_dtypes.bfloat16) for shape in shapes)
            return left, right, np.full((self.m, self.n), np.nan, "float32")
        made = []
        for dtype, shape in zip(kinds, shapes, strict=True):
            ends = np.iinfo(dtype).min, np.iinfo(dtype).max
            if extremes:
                values = rng.choice(ends, shape)
            else:
                values = rng.integers(*ends, shape, endpoint=True)
            made.append(values.astype(dtype))
        return made[0], made[1], np.full((self.m, self.n), -7, "int32")

    def check(self, left: Any, right: Any, out: Any) -> None:
        """Raise unless `out` is the product: exactly for integers, else up to rounding."""
        exact = left.astype("float64") @ right.astype("float64")
        tolerance = 0.0 if self.product.out == "int32" else 1e-5 * self.k
        np.testing.assert_allclose(out, exact, rtol=0, atol=tolerance)

    def _tile(self, sch: Schedule, block: BlockRV, tiles: BlockRV) -> tuple[LoopRV, LoopRV]:
        """The loop over the depth and the first loop of a unit."""
        i, j, k = sch.get_loops(block)
        above, rows, row = sch.split(i, [self.row_blocks, None, self.size])
        columns, column = sch.split(j, [None, self.size])
        depth, step = sch.split(k, [None, self.product.depth])
        sch.reorder(above, columns, rows, depth, row, column, step)
        task = sch.fuse(above, columns, rows)
        sch.parallel(task)
        sch.reverse_compute_at(tiles, task, preserve_unit_loops=True)
        return depth, row

    def _pack(self, sch: Schedule, block: BlockRV) -> None:
        """Copy B so that a unit of it is one piece of memory in the order of the instruction."""
        size, depth, group = self.size, self.product.depth, self.product.group

        def units(k: PrimExpr, j: PrimExpr) -> tuple[PrimExpr, ...]:
            within = floormod(k, depth)
            return (
                floordiv(j, size),
                floordiv(k, depth),
                floordiv(within, group),
                floormod(j, size),
                floormod(within, group),
            )

        copy = sch.cache_read(block, 1, "global")
        sch.transform_layout(block, ("read", 1), units, assume_injective_transform=True)
        sch.transform_block_layout(copy, units)
        panel, rows, _, column, _ = sch.get_loops(copy)
        sch.parallel(sch.fuse(panel, rows))
        _, lanes = sch.split(column, [None, amx.TILE_ROWS])
        sch.tensorize(lanes, pack_name(group, amx.TILE_ROWS, self.product.right))
