"""Tile kernels on plain cores, statement by statement.

Steps of the sum go through shared memory in a ring of stages that asynchronous copies fill. What a
thread multiplies it has loaded one step earlier, so that loads and products overlap. In shared
memory rows of both operands are contiguous: four neighbours are one load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.ir.annotation_keys import RESIDENT_BLOCKS
from tilewright.ir.intrinsics import call_pure_extern
from tilewright.lowering.gpu.thread_sync import SYNCHRONIZED
from tilewright.lowering.gpu.tile_kernels.building import (
    bound,
    loop,
    on_threads,
    put,
    run,
    sync,
    vector,
    vector_copy,
    when,
)
from tilewright.lowering.gpu.tile_kernels.slices import Exchange
from tilewright.lowering.gpu.tile_kernels.thread_copies import TileCopy, all_of, stride_of
from tilewright.lowering.gpu.tile_kernels.thread_tiles import WIDTH, ThreadTiles


@dataclass(frozen=True)
class _ThreadPosition:
    """Where a thread is: first row and column of its results in the tile, and its slice."""

    thread: ir.Var
    row: ir.PrimExpr
    column: ir.PrimExpr
    in_slice: ir.PrimExpr  # its number among the threads of a slice
    slice: ir.PrimExpr


class ThreadKernel:
    """Writes the statements of one kernel."""

    def __init__(self, sizes: ThreadTiles) -> None:
        self._sizes = sizes
        self._form = sizes.form
        rows, columns = sizes.tile
        dtype, depth, stages = self._form.sums.dtype, sizes.depth, sizes.stages
        sizes_of_tiles = [stages * depth * pitch for pitch in sizes.pitches]
        size = max(sum(sizes_of_tiles), sizes.exchanged_bytes // dtype.itemsize)
        self._tiles = ir.decl_buffer((size,), dtype, "tiles", scope="shared.dyn")
        self._first = (0, sizes_of_tiles[0])  # where those of each operand begin
        self._sums = ir.decl_buffer((rows * columns,), dtype, "sums", scope="local")
        self._operands = [
            ir.decl_buffer((2 * count,), dtype, name, scope="local")
            for name, count in (("left", rows), ("right", columns))
        ]
        self._results = self._sums
        if self._form.slices > 1:
            count = rows * columns // self._form.slices
            self._results = ir.decl_buffer((count,), dtype, "results", scope="local")

    def statement(self) -> ir.Stmt:
        """The kernel, on its threads."""
        sizes, tiles = self._sizes, self._form.tiles
        thread = ir.Var("thread", ir.INT32)
        own = ir.floormod(thread, sizes.tile_threads)
        warp, lane = ir.floordiv(own, 32), ir.floormod(thread, 32)
        rows, columns = sizes.tile
        across = sizes.warps[1]
        high, wide = sizes.lanes
        row = ir.floordiv(warp, across) * (high * rows) + ir.floordiv(lane, wide) * WIDTH
        column = ir.floormod(warp, across) * (wide * columns) + ir.floormod(lane, wide) * WIDTH
        which = ir.floordiv(thread, sizes.tile_threads)
        body = self._body(_ThreadPosition(thread, row, column, own, which))
        buffers = [self._tiles, self._sums, *self._operands]
        if self._form.slices > 1:
            buffers.append(self._results)
        block = ir.Block((), (), (), "tile_kernel", body, alloc_buffers=tuple(buffers))
        inside: ir.Stmt = ir.BlockRealize((), ir.TRUE, block)
        inside = ir.AttrStmt(ir.const(0), SYNCHRONIZED, ir.const(1), inside)
        inside = ir.AttrStmt(ir.const(0), RESIDENT_BLOCKS, ir.const(sizes.resident), inside)
        stmt = on_threads(thread, "threadIdx.x", sizes.threads, inside)
        assert isinstance(tiles.extent, ir.IntImm)
        return on_threads(tiles.loop_var, "blockIdx.x", tiles.extent.value, stmt)

    @property
    def _own_depth(self) -> int:
        """Of a step, what a slice takes."""
        return self._sizes.depth // self._form.slices

    @property
    def _steps(self) -> int:
        extent = self._form.steps.extent
        assert isinstance(extent, ir.IntImm)
        return extent.value

    def _body(self, at: _ThreadPosition) -> ir.Stmt:
        sizes = self._sizes
        rows, columns = sizes.tile
        ahead = sizes.stages - 1
        zero = ir.const(0, self._sums.dtype)
        start = [
            loop("i", rows * columns, lambda i: put(self._sums, zero, i), unrolled=True),
            *(self._fetch(at, ir.const(n)) for n in range(ahead)),
            run(f"tw_copy_wait_{ahead - 1}"),
            sync(),
            self._from(at, ir.const(0), lambda begin: self._load(begin, 0, 0)),
        ]
        steps = loop("step", self._steps, lambda step: self._step(at, step))
        added = []
        if self._form.slices > 1:
            exchange = Exchange(self._tiles, self._sums, self._results, sizes.tile_threads)
            added = [exchange.statement(at.slice, at.in_slice)]
        return ir.seq([*start, steps, self._settle(), *added, self._write(at)])

    def _step(self, at: _ThreadPosition, step: ir.Var) -> ir.Stmt:
        """Multiply one step while others are on their way."""
        sizes = self._sizes
        ahead, last = sizes.stages - 1, self._own_depth - 1
        stage, following = (ir.floormod(step + n, sizes.stages) for n in (0, 1))

        return ir.seq(
            [
                self._fetch(at, step + ahead),
                self._from(at, stage, self._multiply_all_but_last),
                run(f"tw_copy_wait_{ahead - 1}"),
                sync(),
                self._from(at, following, lambda begin: self._load(begin, 0, (last + 1) % 2)),
                self._multiply(last % 2),
            ]
        )

    def _multiply_all_but_last(self, begin: Sequence[ir.PrimExpr]) -> ir.Stmt:
        """The products of a stage; what they take is loaded one of them earlier."""

        def part(k: ir.Var) -> ir.Stmt:
            loads = self._load(begin, k + 1, ir.floormod(k + 1, 2))
            return ir.seq([loads, self._multiply(ir.floormod(k, 2))])

        return loop("k", self._own_depth - 1, part, unrolled=True)

    # --- from memory to shared memory -----------------------------------------------------------

    def _fetch(self, at: _ThreadPosition, step: ir.PrimExpr) -> ir.Stmt:
        """Start the copies of a step, if there is one; they count as one group in any case."""
        form, sizes = self._form, self._sizes
        stage = ir.floormod(step, sizes.stages)
        copies = [
            TileCopy(operand, self._tiles, first, pitch, sizes.threads).start(
                at.thread, {form.steps.loop_var: step}, stage
            )
            for operand, first, pitch in zip(
                (form.left, form.right), self._first, sizes.pitches, strict=True
            )
        ]
        if isinstance(step, ir.IntImm):
            started = ir.seq(copies) if step.value < self._steps else ir.seq([])
        else:
            started = when(ir.less(step, self._steps), *copies)
        return ir.seq([started, run("tw_copy_commit")])

    # --- from shared memory to registers --------------------------------------------------------

    def _from(
        self,
        at: _ThreadPosition,
        stage: ir.PrimExpr,
        body: Callable[[Sequence[ir.PrimExpr]], ir.Stmt],
    ) -> ir.Stmt:
        """Statements that load from a stage, with where the rows of a thread begin there.

        The compiler must not know how that comes about: it would add the offset of each load to it
        again, instead of leaving that to the load.
        """
        sizes = self._sizes
        left, right = (
            call_pure_extern(
                "int32",
                "tw_kept",
                ir.floordiv(
                    (stage * sizes.depth + at.slice * self._own_depth) * pitch + place + first,
                    WIDTH,
                ),
            )
            for pitch, place, first in zip(
                sizes.pitches, (at.row, at.column), self._first, strict=True
            )
        )

        def with_left(a: ir.Var) -> ir.Stmt:
            return bound("right_at", right, lambda b: body((a * WIDTH, b * WIDTH)))

        return bound("left_at", left, with_left)

    def _load(
        self, begin: Sequence[ir.PrimExpr], k: ir.PrimExpr | int, half: ir.PrimExpr | int
    ) -> ir.Stmt:
        """The operands of one step of the sum."""
        sizes = self._sizes
        loads = []
        for which in (0, 1):
            count = sizes.tile[which]
            for piece in range(count // WIDTH):
                offset = k * sizes.pitches[which] + piece * WIDTH * sizes.lanes[which]
                target = half * count + piece * WIDTH
                source = begin[which] + offset
                loads.append(vector_copy(self._operands[which], target, self._tiles, source, WIDTH))
        return ir.seq(loads)

    def _multiply(self, half: ir.PrimExpr | int) -> ir.Stmt:
        rows, columns = self._sizes.tile
        left, right = self._operands

        def one(i: ir.Var) -> ir.Stmt:
            def two(j: ir.Var) -> ir.Stmt:
                # Back and forth: neighbours share an operand, which costs no read of a register.
                column = j + ir.floormod(i, 2) * (columns - 1 - 2 * j)
                place = i * columns + column
                product = left[half * rows + i] * right[half * columns + column]
                return put(self._sums, self._sums[place] + product, place)

            return loop("j", columns, two, unrolled=True)

        return loop("i", rows, one, unrolled=True)

    # --- to memory ------------------------------------------------------------------------------

    def _settle(self) -> ir.Stmt:
        """Leave sums in any registers until here, not in neighbours that one store takes.

        Registers come in two banks, and a product is slower if it reads a sum and an operand of
        one bank.
        """
        if self._sums.dtype != ir.DType("float32"):
            return ir.seq([])

        def one(i: ir.Var) -> ir.Stmt:
            return put(self._sums, call_pure_extern("float32", "tw_settled", self._sums[i]), i)

        return loop("i", self._sizes.tile[0] * self._sizes.tile[1], one, unrolled=True)

    def _write(self, at: _ThreadPosition) -> ir.Stmt:
        """The results of a thread, after the output's formula."""
        rows, columns = self._sizes.tile
        rows //= self._form.slices
        output = self._form.output
        row, column = self._form.output_axes
        axes, lanes = output.axes, self._sizes.lanes

        def result(i: ir.PrimExpr, j: ir.PrimExpr) -> ir.Stmt:
            place = {var: axis.origin for var, axis in axes.items()}
            own = i * columns + j
            place[row] = place[row] + at.row + _spread(at.slice * rows + i, lanes[0])
            place[column] = place[column] + at.column + _spread(j, lanes[1])

            def load(node: ir.BufferLoad) -> ir.PrimExpr:
                return self._results[own] if node.buffer is self._form.sums else node

            store = ir.rewrite(output.store, {ir.BufferLoad: load})
            guards = [
                ir.less(place[var], axes[var].size) for var in (row, column) if axes[var].is_divided
            ]
            made = ir.substitute(store, place)
            return when(all_of(guards), made) if guards else made

        def line(i: ir.Var) -> ir.Stmt:
            if axes[column].is_divided or stride_of(output.store, column, output) != 1:
                return loop("j", columns, lambda j: result(i, j), unrolled=True)
            return loop(
                "piece",
                columns // WIDTH,
                lambda piece: vector(WIDTH, lambda v: result(i, piece * WIDTH + v)),
                unrolled=True,
            )

        return loop("i", rows, line, unrolled=True)


def _spread(index: ir.PrimExpr, lanes: int) -> ir.PrimExpr:
    """Results of a thread are in fours, with those of other threads in between."""
    return ir.floordiv(index, WIDTH) * (WIDTH * lanes) + ir.floormod(index, WIDTH)
