"""The end of a tile kernel whose threads write the results, row by row.

Sums go to shared memory, where each row lies in order; then each thread takes a few neighbours of a
row, does what is left to do to them, and writes them. Where several blocks of a cluster hold parts
of the sums, each of them finishes some rows and adds up what it finds in the memory of the others:
always in the same order, so that results are the same in every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.ir.intrinsics import address_of
from tilewright.lowering.gpu.tile_kernels.building import (
    UINT32,
    loop,
    put,
    run,
    vector,
    when,
    word,
)
from tilewright.lowering.gpu.tile_kernels.layout import WARP_GROUP, GroupLayout
from tilewright.lowering.gpu.tile_kernels.tensor_maps import linear_terms
from tilewright.lowering.gpu.tile_kernels.wide_results import rounded_once

if TYPE_CHECKING:
    from tilewright.lowering.gpu.tile_kernels.roles import KernelVars

_WIDTH = 4  # neighbours that a thread takes at most
_MOST_LOADS = 16  # of a thread on their way at a time


@dataclass(frozen=True)
class RowWriter:
    """Writes the results of one tile."""

    layout: GroupLayout

    def write(
        self,
        sums: ir.Buffer,
        place: Mapping[ir.Var, ir.PrimExpr],
        at: KernelVars,
        rank: ir.PrimExpr,
    ) -> ir.Stmt:
        """Put the sums in order, meet, and write the rows of this block."""
        meet = run("tw_named_barrier", 1, self._threads)
        is_shared = self.layout.form.splits > 1
        parts = [
            meet,  # nobody reads tiles any more, whose place the sums take
            *(self._put(sums, at, matrix) for matrix in range(self.layout.matrices)),
            run("tw_cluster_barrier") if is_shared else meet,
            self._rows(place, at, rank),
        ]
        return ir.seq(parts)

    @property
    def _threads(self) -> int:
        return WARP_GROUP * self.layout.form.consumers

    @property
    def _kind(self) -> str:
        return "s32" if self.layout.form.sums.dtype.is_int else "f32"

    # --- into shared memory ---------------------------------------------------------------------

    def _address(self, at: KernelVars, row: ir.PrimExpr, column: ir.PrimExpr) -> ir.PrimExpr:
        first = at.base + word(self.layout.output_offset)
        return first + ir.cast(UINT32, row * self.layout.pitch + column * 4)

    def _put(self, sums: ir.Buffer, at: KernelVars, matrix: int) -> ir.Stmt:
        """The sums of one instruction: a thread has pairs of neighbours, in two rows."""
        layout = self.layout
        group, warp = ir.floordiv(at.warp, 4), ir.floormod(at.warp, 4)
        top = group * layout.rows + warp * 16 + 64 * matrix + ir.floordiv(at.lane, 4)
        first = matrix * layout.sums_of_matrix

        def eight(step: ir.Var) -> ir.Stmt:
            column = step * 8 + ir.floormod(at.lane, 4) * 2
            return ir.seq(
                run(
                    f"tw_store_pair_{self._kind}",
                    self._address(at, top + 8 * half, column),
                    sums[first + step * 4 + 2 * half],
                    sums[first + step * 4 + 2 * half + 1],
                )
                for half in (0, 1)
            )

        return loop("columns", layout.columns // 8, eight, unrolled=True)

    # --- and out of it --------------------------------------------------------------------------

    @cached_property
    def _width(self) -> int:
        """Neighbours that a thread takes: four where they can be written at once."""
        output, column = self.layout.form.output, self.layout.form.output_axes[1]
        terms, base = linear_terms(output, output.store)
        if terms is None or terms.get(column) != 1 or output.store.buffer.dtype.itemsize > 4:
            return 1
        others = (step for var, step in terms.items() if var is not column)
        numbers = (*others, base, output.axes[column].size)
        return 1 if any(number % _WIDTH for number in numbers) else _WIDTH

    def _rows(
        self, place: Mapping[ir.Var, ir.PrimExpr], at: KernelVars, rank: ir.PrimExpr
    ) -> ir.Stmt:
        """The rows of this block; several loads of a thread are on their way at the same time."""
        form, width = self.layout.form, self._width
        rows, across = form.row.extent // form.splits, self.layout.columns // width
        count = rows * across
        rounds = -(-count // self._threads)
        most = max(1, _MOST_LOADS // form.splits)
        batch = max(n for n in range(1, most + 1) if rounds % n == 0)
        parts = [
            ir.decl_buffer((form.splits * width,), form.sums.dtype, "parts", scope="local")
            for _ in range(batch)
        ]

        def one(number: ir.Var) -> ir.Stmt:
            loads, ends = [], []
            for each, part in enumerate(parts):
                index = (number * batch + each) * self._threads + at.thread
                row = rank * rows + ir.floordiv(index, across)
                column = ir.floormod(index, across) * width
                is_there = ir.TRUE if count % self._threads == 0 else ir.less(index, count)
                loads.append(_if(is_there, self._loads(part, self._address(at, row, column), rank)))
                ends.append(_if(is_there, self._finish(part, place, row, column)))
            return ir.seq([*loads, *ends])

        body = loop("round", rounds // batch, one)
        block = ir.Block((), (), (), "write_rows", body, alloc_buffers=tuple(parts))
        return ir.BlockRealize((), ir.TRUE, block)

    def _loads(self, parts: ir.Buffer, address: ir.PrimExpr, rank: ir.PrimExpr) -> ir.Stmt:
        """All parts of some sums; each block begins with its own, so that they do not queue."""
        splits, width = self.layout.form.splits, self._width
        if splits == 1:
            return run(f"tw_load_own_{width}_{self._kind}", address_of(parts[0]), address)
        name = f"tw_load_far_{width}_{self._kind}"
        return ir.seq(
            run(name, address_of(parts[n * width]), address, ir.floormod(rank + n, splits))
            for n in range(splits)
        )

    def _finish(
        self,
        parts: ir.Buffer,
        place: Mapping[ir.Var, ir.PrimExpr],
        row: ir.PrimExpr,
        column: ir.PrimExpr,
    ) -> ir.Stmt:
        """Add parts up, and write what the output's formula makes of them."""
        form, width = self.layout.form, self._width
        output, (own_row, own_column) = form.output, form.output_axes
        origin = {var: ir.substitute(axis.origin, place) for var, axis in output.axes.items()}
        origin[own_row] = origin[own_row] + row
        origin[own_column] = origin[own_column] + column

        def result(number: ir.PrimExpr) -> ir.Stmt:
            def load(node: ir.BufferLoad) -> ir.PrimExpr:
                return parts[number] if node.buffer is form.sums else node

            at = {**origin, own_column: origin[own_column] + number}
            made = ir.rewrite(output.store, {ir.BufferLoad: load})
            return ir.substitute(ir.updated(made, value=rounded_once(made.value)), at)

        written = result(ir.const(0)) if width == 1 else vector(width, result)
        for var in (own_row, own_column):
            if output.axes[var].is_divided:
                written = when(ir.less(origin[var], output.axes[var].size), written)
        return ir.seq([*self._sums(parts), written])

    def _sums(self, parts: ir.Buffer) -> list[ir.Stmt]:
        splits, width = self.layout.form.splits, self._width
        totals = []
        for element in range(width if splits > 1 else 0):
            total: ir.PrimExpr = parts[element]
            for n in range(1, splits):
                total = total + parts[n * width + element]
            totals.append(put(parts, total, ir.const(element)))
        return totals


def _if(condition: ir.PrimExpr, stmt: ir.Stmt) -> ir.Stmt:
    return stmt if ir.is_true(condition) else when(condition, stmt)
