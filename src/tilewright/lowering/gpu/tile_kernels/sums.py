"""Sums of the products of tiles: kept in the tensor cores, or taken over by threads.

The tensor cores of Hopper keep about 14 bits of the sums of 8-bit floats, whatever the registers
hold. Sums of long rows are therefore taken over by plain additions every 128 elements, and the
tensor cores begin anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from tilewright import ir
from tilewright.ir.intrinsics import address_of
from tilewright.lowering.gpu.tile_kernels.building import loop, put, run
from tilewright.lowering.gpu.tile_kernels.layout import MATRIX_ROWS, GroupLayout
from tilewright.lowering.gpu.tile_kernels.shared_tiles import UINT64, depth_shift, far, rows_shift


@dataclass(frozen=True)
class FilledStage:
    """The tiles of one step of the sum in shared memory, and how to give their room back."""

    step: ir.Var
    left: ir.Var  # descriptors
    right: ir.Var
    free: ir.Stmt
    free_before: ir.Stmt  # that of the step before


@dataclass(frozen=True)
class RunningSums:
    """The tensor cores add to the same registers all the time, one step ahead of what is done."""

    layout: GroupLayout

    @cached_property
    def results(self) -> ir.Buffer:
        """The registers with the results of a tile, after all its steps."""
        dtype = self.layout.form.sums.dtype
        return ir.decl_buffer((self.layout.sums,), dtype, "sums", scope="local")

    @property
    def registers(self) -> tuple[ir.Buffer, ...]:
        """All that are used."""
        return (self.results,)

    def begin(self) -> Sequence[ir.Stmt]:
        """Before the steps of a tile."""
        return ()

    def multiply(self, stage: FilledStage) -> Sequence[ir.Stmt]:
        """Multiply the tiles of one stage while the stage before is still being read."""
        layout = self.layout

        def one(part: ir.Var) -> ir.Stmt:
            adds = ir.cast(ir.INT32, ir.not_equal(stage.step + part, 0))
            return ir.seq(
                _multiplication(
                    layout,
                    address_of(self.results[number * layout.sums_of_matrix]),
                    _Factors(stage, part, number, 0),
                    adds,
                )
                for number in range(layout.matrices)
            )

        return [
            run("tw_wgmma_fence"),
            loop("part", layout.depth_steps, one, unrolled=True),
            run("tw_wgmma_commit"),
            run("tw_wgmma_wait_1"),
            stage.free_before,
        ]

    def end(self, free: ir.Stmt) -> Sequence[ir.Stmt]:
        """After the steps of a tile; `free` gives back the room of the last one."""
        return [run("tw_wgmma_wait_0"), free]


@dataclass(frozen=True)
class PromotedSums:
    """Some columns at a time are multiplied, then added to those that threads keep."""

    layout: GroupLayout

    @cached_property
    def results(self) -> ir.Buffer:
        """The registers with the results of a tile, after all its steps."""
        return ir.decl_buffer((self.layout.sums,), "float32", "totals", scope="local")

    @cached_property
    def _partial(self) -> ir.Buffer:
        """The registers of the tensor cores."""
        return ir.decl_buffer((self._width // 2,), "float32", "sums", scope="local")

    @property
    def registers(self) -> tuple[ir.Buffer, ...]:
        """All that are used."""
        return (self.results, self._partial)

    @property
    def _width(self) -> int:
        return self.layout.promoted_columns

    def begin(self) -> Sequence[ir.Stmt]:
        """All sums are zero."""
        zero = ir.const(0, "float32")
        return [loop("n", self.layout.sums, lambda n: put(self.results, zero, n), unrolled=True)]

    def multiply(self, stage: FilledStage) -> Sequence[ir.Stmt]:
        """Multiply the tiles of one stage part by part; another group multiplies meanwhile."""
        columns = range(0, self.layout.columns, self._width)
        *others, last = [(m, n) for m in range(self.layout.matrices) for n in columns]
        statements: list[ir.Stmt] = []
        for matrix, first in others:
            statements += [*self._products(stage, matrix, first), self._add(matrix, first)]
        return [*statements, *self._products(stage, *last), stage.free, self._add(*last)]

    def end(self, free: ir.Stmt) -> Sequence[ir.Stmt]:
        """Nothing is left to do."""
        return ()

    def _products(self, stage: FilledStage, matrix: int, first: int) -> Sequence[ir.Stmt]:
        into = address_of(self._partial[0])

        def one(part: ir.Var) -> ir.Stmt:
            adds = ir.cast(ir.INT32, ir.not_equal(part, 0))
            return _multiplication(self.layout, into, _Factors(stage, part, matrix, first), adds)

        return [
            run("tw_wgmma_fence"),
            loop("part", self.layout.depth_steps, one, unrolled=True),
            run("tw_wgmma_commit"),
            run(f"tw_wgmma_wait_0_for_{self._width // 2}", into),
        ]

    def _add(self, matrix: int, first: int) -> ir.Stmt:
        start = matrix * self.layout.sums_of_matrix + first // 2

        def one(n: ir.Var) -> ir.Stmt:
            return put(self.results, self.results[n + start] + self._partial[n], n + start)

        return loop("n", self._width // 2, one, unrolled=True)


Sums: TypeAlias = RunningSums | PromotedSums


def sums_of(layout: GroupLayout) -> Sums:
    """How the products of a kernel are added up."""
    return PromotedSums(layout) if layout.promoted_columns else RunningSums(layout)


@dataclass(frozen=True)
class _Factors:
    """What one instruction multiplies: a part of the sum, 64 rows, and columns from one on."""

    stage: FilledStage
    part: ir.Var
    matrix: int
    column: int


def _multiplication(
    layout: GroupLayout, into: ir.PrimExpr, factors: _Factors, adds: ir.PrimExpr
) -> ir.Stmt:
    part = ir.cast(UINT64, factors.part)
    rows = rows_shift(layout.left, MATRIX_ROWS) * factors.matrix
    left = factors.stage.left + far(rows) + part * far(depth_shift(layout.left))
    columns = far(rows_shift(layout.right, factors.column))
    right = factors.stage.right + columns + part * far(depth_shift(layout.right))
    return run(layout.instruction, into, left, right, adds)
