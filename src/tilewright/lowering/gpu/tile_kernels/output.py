"""The end of a tile kernel: sums become results, which go to memory by bulk copies.

Threads hold the sums of one instruction as `wgmma` leaves them: thread t of a warp group has, for
each 8 columns, two neighbours of row `16 * (t / 32) + t % 32 / 4` and of the row 8 below. They are
put into shared memory in the order that bulk copies read, without two threads in the same bank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.ir.intrinsics import (
    bitwise_and,
    bitwise_xor,
    call_extern,
    if_then_else,
    shift_right,
)
from tilewright.lowering.gpu.tile_kernels.building import UINT32, loop, put, run, vector, word
from tilewright.lowering.gpu.tile_kernels.layout import PACKS, GroupLayout
from tilewright.lowering.gpu.tile_kernels.tensor_maps import TensorMap, coordinates
from tilewright.lowering.gpu.tile_kernels.wide_results import in_float32

if TYPE_CHECKING:
    from tilewright.lowering.gpu.tile_kernels.roles import KernelVars

_OTHER_REGISTERS = 32  # of a thread, besides sums and what is fetched for their results


@dataclass(frozen=True)
class OutputWriter:
    """Writes the results of one tile."""

    layout: GroupLayout

    @cached_property
    def ahead(self) -> dict[ir.Buffer, ir.Buffer]:
        """Registers for operands of the formula that differ for each result: what is added, say.

        They are fetched before the sums are there, in pairs. Others are read when they are needed:
        those that rows share, and those for which there is no room.
        """
        found: dict[ir.Buffer, ir.Buffer] = {}
        _, registers = self.layout.registers or (0, 0)
        room = registers - _OTHER_REGISTERS - self.layout.sums
        for load in self._loads_of_each():
            room -= self.layout.sums * load.dtype.itemsize // 4
            if load.buffer not in found and room >= 0:
                shape, name = (self.layout.sums,), f"{load.buffer.name}_ahead"
                found[load.buffer] = ir.decl_buffer(shape, load.dtype, name, scope="local")
        return found

    def _loads_of_each(self) -> Iterator[ir.BufferLoad]:
        form = self.layout.form
        loads = [
            load
            for load in ir.nodes_of(form.output.store.value, ir.BufferLoad)
            if load.buffer is not form.sums and load.indices  # a single number is no tile
        ]
        for load in loads:
            *outer, last = load.indices
            is_alone = sum(other.buffer is load.buffer for other in loads) == 1
            is_along = last is self.column and not any(_uses(i, self.column) for i in outer)
            is_even = isinstance(load.buffer.shape[-1], ir.IntImm) and not (
                load.buffer.shape[-1].value % 2
            )
            if is_alone and is_along and is_even and any(_uses(i, self.row) for i in outer):
                yield load

    def fetch_ahead(self, place: Mapping[ir.Var, ir.PrimExpr], at: KernelVars) -> Sequence[ir.Stmt]:
        """Fetch operands of the formula for one tile."""
        axes, layout = self.layout.form.output.axes, self.layout
        origin = {var: ir.substitute(axis.origin, place) for var, axis in axes.items()}
        loads = [load for load in self._loads_of_each() if load.buffer in self.ahead]

        def pair(load: ir.BufferLoad, matrix: int, column: ir.PrimExpr, first: int) -> ir.Stmt:
            where, register = self._where(origin, at, matrix, column, first)
            guarded = ir.substitute(self._guarded(load, where), where)

            def copy(v: ir.Var) -> ir.Stmt:
                moved = {**where, self.column: where[self.column] + v}
                value: ir.PrimExpr = ir.substitute(load, moved)
                if isinstance(guarded, ir.Call):
                    value = if_then_else(guarded.args[0], value, guarded.args[2])
                return put(self.ahead[load.buffer], value, register + v)

            return vector(2, copy)

        return [
            loop(
                "columns",
                layout.columns // 16,
                lambda step, load=load, matrix=matrix: ir.seq(  # type: ignore[misc]
                    [pair(load, matrix, step * 16, 2 * each) for each in range(4)]
                ),
                unrolled=True,
            )
            for load in loads
            for matrix in range(layout.matrices)
        ]

    @property
    def row(self) -> ir.Var:
        """The iterator of the output along rows of the tile."""
        return self.layout.form.output_axes[0]

    @property
    def column(self) -> ir.Var:
        """The iterator of the output along columns of the tile."""
        return self.layout.form.output_axes[1]

    def write(
        self,
        sums: ir.Buffer,
        output: TensorMap,
        place: Mapping[ir.Var, ir.PrimExpr],
        at: KernelVars,
    ) -> ir.Stmt:
        """All parts of a tile, one after another through the same shared memory."""
        axes = self.layout.form.output.axes
        origin = {var: ir.substitute(axis.origin, place) for var, axis in axes.items()}
        parts = [
            self._part(sums, output, origin, at, first)
            for first in range(0, self.layout.columns, self.layout.part)
        ]
        return ir.seq(parts)

    def _part(
        self,
        sums: ir.Buffer,
        output: TensorMap,
        origin: Mapping[ir.Var, ir.PrimExpr],
        at: KernelVars,
        first: int,
    ) -> ir.Stmt:
        layout = self.layout
        consumer = ir.floordiv(at.warp, 4)
        is_leader = ir.logical_and(ir.equal(ir.floormod(at.warp, 4), 0), ir.equal(at.lane, 0))
        barrier = run("tw_named_barrier", ir.add(consumer, 1), 128)
        base = at.base + word(layout.output_offset)
        width = layout.output_panel * layout.output_dtype.itemsize
        panel = layout.form.row.extent * width
        copies = []
        for number in range(layout.part // layout.output_panel):
            shift = ir.cast(UINT32, consumer) * word(layout.rows * width)
            source = base + word(number * panel) + shift
            begin = {
                **origin,
                self.row: origin[self.row] + consumer * layout.rows,
            }
            to = coordinates(output, begin, {self.column: first + number * layout.output_panel})
            copies.append(run(f"tw_store_{len(to)}d", output.var, source, *to))
        put = self._put_pairs if layout.output_dtype.itemsize == 4 else self._put_matrices
        return ir.seq(
            [
                ir.IfThenElse(is_leader, run("tw_bulk_wait_read_0")),
                barrier,
                *(put(sums, origin, at, first, matrix) for matrix in range(layout.matrices)),
                run("tw_fence_async_shared"),
                barrier,
                ir.IfThenElse(is_leader, ir.seq([*copies, run("tw_bulk_commit")])),
            ]
        )

    # --- into shared memory ---------------------------------------------------------------------

    def _address(
        self, at: KernelVars, row: ir.PrimExpr, column: ir.PrimExpr, chunk: ir.PrimExpr
    ) -> ir.PrimExpr:
        """Of a chunk of 16 bytes in the panel of a column."""
        layout = self.layout
        width = layout.output_panel * layout.output_dtype.itemsize
        number = ir.floordiv(column, layout.output_panel)
        mixed = bitwise_and(row, 7) if width == 128 else bitwise_and(shift_right(row, 1), 3)
        offset = (
            number * (layout.form.row.extent * width) + row * width + bitwise_xor(chunk, mixed) * 16
        )
        return at.base + word(layout.output_offset) + ir.cast(UINT32, offset)

    def _first_row(self, at: KernelVars, matrix: int) -> ir.PrimExpr:
        """The first row of a warp in a matrix."""
        layout = self.layout
        group, warp = ir.floordiv(at.warp, 4), ir.floormod(at.warp, 4)
        return group * layout.rows + warp * 16 + 64 * matrix

    def _put_matrices(
        self,
        sums: ir.Buffer,
        origin: Mapping[ir.Var, ir.PrimExpr],
        at: KernelVars,
        first: int,
        matrix: int,
    ) -> ir.Stmt:
        """Results of 16 bits: a warp stores 16 columns at a time."""
        layout = self.layout
        pack = PACKS[str(layout.output_dtype)]
        step = ir.Var("columns", ir.INT32)
        lane, top = at.lane, self._first_row(at, matrix)
        row = top + ir.floormod(lane, 8) + ir.floormod(ir.floordiv(lane, 8), 2) * 8
        column = step * 16
        within = ir.floordiv(ir.floormod(column, layout.output_panel), 8)
        pairs = []
        for pair in range(4):
            values = [
                in_float32(self._value(sums, origin, at, matrix, first, column, 2 * pair + n))
                for n in (0, 1)
            ]
            pairs.append(call_extern(UINT32, pack, *values))
        address = self._address(at, row, column, within + ir.floordiv(lane, 16))
        body = run("tw_store_matrices", address, *pairs)
        count = ir.const(layout.part // 16)
        return ir.For(step, ir.const(0), count, ir.ForKind.UNROLLED, body)

    def _put_pairs(
        self,
        sums: ir.Buffer,
        origin: Mapping[ir.Var, ir.PrimExpr],
        at: KernelVars,
        first: int,
        matrix: int,
    ) -> ir.Stmt:
        """Results of 32 bits: each thread stores two neighbours at a time."""
        layout = self.layout
        step = ir.Var("columns", ir.INT32)
        lane, top = at.lane, self._first_row(at, matrix)
        stores = []
        for half in range(4):
            column = step * 16 + 8 * (half // 2) + ir.floormod(lane, 4) * 2
            row = top + ir.floordiv(lane, 4) + 8 * (half % 2)
            chunk = ir.floordiv(ir.floormod(column, layout.output_panel), 4)
            address = self._address(at, row, column, chunk)
            address = address + ir.cast(UINT32, ir.floormod(column, 4) * 4)
            values = [
                self._value(sums, origin, at, matrix, first, step * 16, 2 * half + neighbour)
                for neighbour in (0, 1)
            ]
            kind = "f32" if layout.output_dtype.is_float else "s32"
            stores.append(run(f"tw_store_pair_{kind}", address, *values))
        count = ir.const(layout.part // 16)
        return ir.For(step, ir.const(0), count, ir.ForKind.UNROLLED, ir.seq(stores))

    def _value(
        self,
        sums: ir.Buffer,
        origin: Mapping[ir.Var, ir.PrimExpr],
        at: KernelVars,
        matrix: int,
        first: int,
        column: ir.PrimExpr,
        element: int,
    ) -> ir.PrimExpr:
        """A result: the one of eight sums of a thread in 16 columns, after the output's formula."""
        layout = self.layout
        place, register = self._where(origin, at, matrix, column + first, element)
        own = layout.form.sums

        def load(node: ir.BufferLoad) -> ir.PrimExpr:
            if node.buffer is own:
                return sums[register]
            if node.buffer in self.ahead:
                return self.ahead[node.buffer][register]
            return self._guarded(node, place)

        formula = ir.rewrite(layout.form.output.store.value, {ir.BufferLoad: load})
        return ir.substitute(formula, place)

    def _where(
        self,
        origin: Mapping[ir.Var, ir.PrimExpr],
        at: KernelVars,
        matrix: int,
        column: ir.PrimExpr,
        element: int,
    ) -> tuple[dict[ir.Var, ir.PrimExpr], ir.PrimExpr]:
        """The place of one of eight results of a thread in 16 columns, and the sum's register."""
        register = matrix * self.layout.sums_of_matrix + ir.floordiv(column, 2) + element
        row = self._first_row(at, matrix) + ir.floordiv(at.lane, 4) + 8 * (element // 2 % 2)
        here = column + (8 * (element // 4) + element % 2) + ir.floormod(at.lane, 4) * 2
        place = {
            **origin,
            self.row: origin[self.row] + row,
            self.column: origin[self.column] + here,
        }
        return place, register

    def _guarded(self, node: ir.BufferLoad, place: Mapping[ir.Var, ir.PrimExpr]) -> ir.PrimExpr:
        """Another operand of the formula; tiles may reach over its end."""
        axes = self.layout.form.output.axes
        inside: ir.PrimExpr = ir.TRUE
        for var in (self.row, self.column):
            if axes[var].is_divided and any(_uses(index, var) for index in node.indices):
                inside = ir.logical_and(inside, ir.less(place[var], axes[var].size))
        if ir.is_true(inside):
            return node
        return if_then_else(inside, node, ir.const(0, node.dtype))


def _uses(index: ir.PrimExpr, var: ir.Var) -> bool:
    return ir.uses_var(index, lambda used: used is var)
