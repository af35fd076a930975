"""Tile kernels on plain cores: every thread computes a small tile of the result in registers.

Steps of the sum go through shared memory in a ring of stages that asynchronous copies fill. A warp
is 8 x 4 threads; what a thread multiplies it has loaded one step earlier, so that loads and
products overlap. In shared memory rows of both operands are contiguous: four neighbours are
one load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tilewright import ir
from tilewright.ir.annotation_keys import RESIDENT_BLOCKS
from tilewright.ir.intrinsics import address_of, if_then_else
from tilewright.lowering.gpu.thread_sync import SYNCHRONIZED
from tilewright.lowering.gpu.tile_kernels.building import (
    loop,
    on_threads,
    put,
    run,
    sync,
    when,
)
from tilewright.lowering.gpu.tile_kernels.tile_form import (
    Operand,
    TileAxis,
    TileBlock,
    TileForm,
    refused,
    source_of,
)

LANES = (8, 4)  # rows and columns of the threads of a warp
_WIDTH = 4  # elements that are loaded at once
_MOST_BYTES = 99 * 1024  # of shared memory: as much as all GPUs since sm_80 have
_MOST_STAGES = 4
_REGISTERS = 65536  # of a processor
_OTHER_REGISTERS = 100  # of a thread, beside its results
_MOST_THREADS = 1024
_RESULT_BYTES = 512  # in the registers of a thread: half of them


@dataclass(frozen=True)
class ThreadTiles:
    """A tile kernel with all sizes settled."""

    form: TileForm

    @staticmethod
    def of(form: TileForm) -> ThreadTiles:
        """The sizes for a form; refused where no such kernel exists."""
        made = ThreadTiles(form)
        rows, columns = made.tile
        dtype = form.sums.dtype
        if rows % _WIDTH or columns % _WIDTH or rows * columns * dtype.itemsize > _RESULT_BYTES:
            raise refused(
                f"a thread has {rows} x {columns} results of {dtype!s}, expected fours, at most "
                f"{_RESULT_BYTES} bytes"
            )
        if form.row.extent % (LANES[0] * rows) or form.column.extent % (LANES[1] * columns):
            raise refused("its tile is not a number of warps of 8 x 4 threads")
        if made.threads > _MOST_THREADS:
            raise refused(f"its tile takes {made.threads} threads, at most {_MOST_THREADS} exist")
        for own in (each.copy.store.buffer.dtype for each in (form.left, form.right)):
            if own != dtype or dtype.bits not in (32, 64):
                raise refused(
                    f"products of {own!s} are summed in {dtype!s}, expected one type of 32 or 64 "
                    "bits"
                )
        return made

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a thread."""
        assert self.form.thread_tile is not None
        return self.form.thread_tile

    @property
    def warps(self) -> tuple[int, int]:
        """Along the rows and the columns of a tile."""
        rows, columns = self.tile
        return (
            self.form.row.extent // (LANES[0] * rows),
            self.form.column.extent // (LANES[1] * columns),
        )

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * self.warps[0] * self.warps[1]

    @property
    def depth(self) -> int:
        """Of a step."""
        return self.form.depth.extent

    @property
    def pitches(self) -> tuple[int, int]:
        """Elements from a row to the next one in shared memory; copies across rows collide less."""
        return self.form.row.extent + _WIDTH, self.form.column.extent + _WIDTH

    @property
    def resident(self) -> int:
        """Blocks that share a processor; fewer leave more registers to each thread."""
        return max(
            1,
            min(4, _REGISTERS // (self.threads * (self.tile[0] * self.tile[1] + _OTHER_REGISTERS))),
        )

    @cached_property
    def stages(self) -> int:
        """Steps of the sum in shared memory at a time."""
        size = self.depth * sum(self.pitches) * self.form.sums.dtype.itemsize
        room = max(2, min(_MOST_STAGES, _MOST_BYTES // size))
        return self.form.stages or room

    def statement(self) -> ir.Stmt:
        """The kernel."""
        return _Writer(self).statement()


@dataclass(frozen=True)
class _Place:
    """Where a thread is: first row and column of its results in the tile."""

    thread: ir.Var
    row: ir.PrimExpr
    column: ir.PrimExpr


class _Writer:
    """Writes the statements of one kernel."""

    def __init__(self, sizes: ThreadTiles) -> None:
        self._sizes = sizes
        self._form = sizes.form
        rows, columns = sizes.tile
        dtype, depth, stages = self._form.sums.dtype, sizes.depth, sizes.stages
        sizes_of_tiles = [stages * depth * pitch for pitch in sizes.pitches]
        self._tiles = ir.decl_buffer((sum(sizes_of_tiles),), dtype, "tiles", scope="shared.dyn")
        self._first = (0, sizes_of_tiles[0])  # where those of each operand begin
        self._sums = ir.decl_buffer((rows * columns,), dtype, "sums", scope="local")
        self._operands = [
            ir.decl_buffer((2 * count,), dtype, name, scope="local")
            for name, count in (("left", rows), ("right", columns))
        ]

    def statement(self) -> ir.Stmt:
        """The kernel, on its threads."""
        sizes, tiles = self._sizes, self._form.tiles
        thread = ir.Var("thread", ir.INT32)
        warp, lane = ir.floordiv(thread, 32), ir.floormod(thread, 32)
        rows, columns = sizes.tile
        across = sizes.warps[1]
        row = ir.floordiv(warp, across) * (LANES[0] * rows) + ir.floordiv(lane, LANES[1]) * _WIDTH
        column = ir.floormod(warp, across) * (LANES[1] * columns)
        column = column + ir.floormod(lane, LANES[1]) * _WIDTH
        body = self._body(_Place(thread, row, column))
        buffers = (self._tiles, self._sums, *self._operands)
        block = ir.Block((), (), (), "tile_kernel", body, alloc_buffers=buffers)
        inside: ir.Stmt = ir.BlockRealize((), ir.TRUE, block)
        inside = ir.AttrStmt(ir.const(0), SYNCHRONIZED, ir.const(1), inside)
        inside = ir.AttrStmt(ir.const(0), RESIDENT_BLOCKS, ir.const(sizes.resident), inside)
        stmt = on_threads(thread, "threadIdx.x", sizes.threads, inside)
        assert isinstance(tiles.extent, ir.IntImm)
        return on_threads(tiles.loop_var, "blockIdx.x", tiles.extent.value, stmt)

    @property
    def _steps(self) -> int:
        extent = self._form.steps.extent
        assert isinstance(extent, ir.IntImm)
        return extent.value

    def _body(self, at: _Place) -> ir.Stmt:
        sizes = self._sizes
        rows, columns = sizes.tile
        ahead = sizes.stages - 1
        zero = ir.const(0, self._sums.dtype)
        start = [
            loop("i", rows * columns, lambda i: put(self._sums, zero, i), unrolled=True),
            *(self._fetch(at, ir.const(n)) for n in range(ahead)),
            run(f"tw_copy_wait_{ahead - 1}"),
            sync(),
            self._load(at, ir.const(0), ir.const(0), ir.const(0)),
        ]
        return ir.seq(
            [*start, loop("step", self._steps, lambda step: self._step(at, step)), self._write(at)]
        )

    def _step(self, at: _Place, step: ir.Var) -> ir.Stmt:
        """Multiply one step while others are on their way."""
        sizes = self._sizes
        ahead, last = sizes.stages - 1, sizes.depth - 1
        stage = ir.floormod(step, sizes.stages)

        def part(k: ir.Var) -> ir.Stmt:
            return ir.seq(
                [
                    self._load(at, stage, k + 1, ir.floormod(k + 1, 2)),
                    self._multiply(ir.floormod(k, 2)),
                ]
            )

        following = ir.floormod(step + 1, sizes.stages)
        return ir.seq(
            [
                self._fetch(at, step + ahead),
                loop("k", last, part, unrolled=True),
                run(f"tw_copy_wait_{ahead - 1}"),
                sync(),
                self._load(at, following, ir.const(0), ir.const((last + 1) % 2)),
                self._multiply(ir.const(last % 2)),
            ]
        )

    # --- from memory to shared memory -----------------------------------------------------------

    def _fetch(self, at: _Place, step: ir.PrimExpr) -> ir.Stmt:
        """Start the copies of a step, if there is one; they count as one group in any case."""
        form, sizes = self._form, self._sizes
        stage = ir.floormod(step, sizes.stages)
        copies = [self._copy(at, which, {form.steps.loop_var: step}, stage) for which in (0, 1)]
        if isinstance(step, ir.IntImm):
            started = ir.seq(copies) if step.value < self._steps else ir.seq([])
        else:
            started = when(ir.less(step, self._steps), *copies)
        return ir.seq([started, run("tw_copy_commit")])

    def _copy(
        self,
        at: _Place,
        which: int,
        place: Mapping[ir.Var, ir.PrimExpr],
        stage: ir.PrimExpr,
    ) -> ir.Stmt:
        """All threads copy one tile: neighbours along the axis that is contiguous in memory."""
        operand = (self._form.left, self._form.right)[which]
        pitch, first = self._sizes.pitches[which], self._first[which]
        axes = operand.copy.axes
        row, depth = axes[operand.row], axes[operand.depth]
        load, guard = source_of(operand.copy)
        width = _vector_width(operand, load, guard)
        fast, slow = (row, depth) if width > 1 else (depth, row)
        count, threads = row.extent * depth.extent // width, self._sizes.threads
        if width == 1 and _stride(load, row.var, operand.copy) == 1:
            fast, slow = row, depth

        def one(number: ir.Var) -> ir.Stmt:
            index = number * threads + at.thread
            near = ir.floormod(index, fast.extent // width) * width
            far = ir.floordiv(index, fast.extent // width)
            offsets = {fast.var: near, slow.var: far}
            values = {
                var: ir.substitute(axis.origin, place) + offsets.get(var, ir.const(0))
                for var, axis in axes.items()
            }
            to = (stage * depth.extent + offsets[depth.var]) * pitch + offsets[row.var] + first
            copy = _guarded_copy(self._tiles[to], load, guard, values, axes, width)
            return copy if count % threads == 0 else when(ir.less(index, count), copy)

        return loop("copy", -(-count // threads), one, unrolled=True)

    # --- from shared memory to registers --------------------------------------------------------

    def _load(self, at: _Place, stage: ir.PrimExpr, k: ir.PrimExpr, half: ir.PrimExpr) -> ir.Stmt:
        """The operands of one step of the sum."""
        sizes = self._sizes
        loads = []
        for which, place in enumerate((at.row, at.column)):
            count, pitch = sizes.tile[which], sizes.pitches[which]
            first = place + self._first[which]
            for piece in range(count // _WIDTH):
                source = (stage * sizes.depth + k) * pitch + first + piece * _WIDTH * LANES[which]
                target = half * count + piece * _WIDTH
                loads.append(_vector_copy(self._operands[which], target, self._tiles, source))
        return ir.seq(loads)

    def _multiply(self, half: ir.PrimExpr) -> ir.Stmt:
        rows, columns = self._sizes.tile
        left, right = self._operands

        def one(i: ir.Var) -> ir.Stmt:
            def two(j: ir.Var) -> ir.Stmt:
                place = i * columns + j
                product = left[half * rows + i] * right[half * columns + j]
                return put(self._sums, self._sums[place] + product, place)

            return loop("j", columns, two, unrolled=True)

        return loop("i", rows, one, unrolled=True)

    # --- to memory ------------------------------------------------------------------------------

    def _write(self, at: _Place) -> ir.Stmt:
        """The results of a thread, after the output's formula."""
        rows, columns = self._sizes.tile
        output = self._form.output
        row, column = self._form.output_axes
        axes = output.axes

        def result(i: ir.PrimExpr, j: ir.PrimExpr) -> ir.Stmt:
            place = {var: axis.origin for var, axis in axes.items()}
            own = i * columns + j
            place[row] = place[row] + at.row + _spread(i, LANES[0])
            place[column] = place[column] + at.column + _spread(j, LANES[1])

            def load(node: ir.BufferLoad) -> ir.PrimExpr:
                return self._sums[own] if node.buffer is self._form.sums else node

            store = ir.rewrite(output.store, {ir.BufferLoad: load})
            guards = [
                ir.less(place[var], axes[var].size) for var in (row, column) if axes[var].is_divided
            ]
            made = ir.substitute(store, place)
            return when(_all(guards), made) if guards else made

        def line(i: ir.Var) -> ir.Stmt:
            if axes[column].is_divided or _stride(output.store, column, output) != 1:
                return loop("j", columns, lambda j: result(i, j), unrolled=True)
            return loop(
                "piece",
                columns // _WIDTH,
                lambda piece: _vector(lambda v: result(i, piece * _WIDTH + v)),
                unrolled=True,
            )

        return loop("i", rows, line, unrolled=True)


def _all(conditions: list[ir.PrimExpr]) -> ir.PrimExpr:
    found = conditions[0]
    for condition in conditions[1:]:
        found = ir.logical_and(found, condition)
    return found


def _spread(index: ir.PrimExpr, lanes: int) -> ir.PrimExpr:
    """Results of a thread are in fours, with those of other threads in between."""
    return ir.floordiv(index, _WIDTH) * (_WIDTH * lanes) + ir.floormod(index, _WIDTH)


def _vector(body: Callable[[ir.Var], ir.Stmt]) -> ir.Stmt:
    var = ir.Var("v", ir.INT32)
    return ir.For(var, ir.const(0), ir.const(_WIDTH), ir.ForKind.VECTORIZED, body(var))


def _vector_copy(
    to: ir.Buffer, target: ir.PrimExpr, source: ir.Buffer, begin: ir.PrimExpr
) -> ir.Stmt:
    return _vector(lambda v: put(to, source[begin + v], target + v))


def _stride(access: ir.BufferLoad | ir.BufferStore, var: ir.Var, block: TileBlock) -> int | None:
    """How far a step along an iterator leads in memory, if always as far."""
    offset = access.buffer.offset_of(access.indices)
    found = block.analyzer().simplify(ir.substitute(offset, {var: ir.add(var, 1)}) - offset)
    return found.value if isinstance(found, ir.IntImm) else None


def _vector_width(operand: Operand, load: ir.BufferLoad, guard: ir.PrimExpr | None) -> int:
    """Elements that one copy moves: 16 bytes where rows allow it."""
    row = operand.copy.axes[operand.row]
    width = 16 // load.dtype.itemsize
    aligned = all(
        (stride or 0) % width == 0
        for var in operand.copy.axes
        if var is not row.var and (stride := _stride(load, var, operand.copy)) is not None
    )
    known = all(_stride(load, var, operand.copy) is not None for var in operand.copy.axes)
    plain = guard is None and _stride(load, row.var, operand.copy) == 1 and aligned and known
    return width if plain and row.size % width == 0 and row.extent % width == 0 else 1


def _guarded_copy(
    target: ir.BufferLoad,
    load: ir.BufferLoad,
    guard: ir.PrimExpr | None,
    values: Mapping[ir.Var, ir.PrimExpr],
    axes: Mapping[ir.Var, TileAxis],
    width: int,
) -> ir.Stmt:
    """One asynchronous copy; outside of the tensor it writes zeros and reads the first element."""
    size = width * load.dtype.itemsize
    inside = [] if guard is None else [ir.substitute(guard, values)]
    inside += [ir.less(values[var], axis.size) for var, axis in axes.items() if axis.is_divided]
    source = ir.substitute(load, values)
    if not inside:
        return run(f"tw_copy_async_{size}", address_of(target), address_of(source), size)
    holds = _all(inside)
    safe = load.buffer[tuple(if_then_else(holds, index, 0) for index in source.indices)]
    assert isinstance(safe, ir.BufferLoad)
    valid = if_then_else(holds, ir.const(size), ir.const(0))
    return run(f"tw_copy_async_{size}", address_of(target), address_of(safe), valid)
