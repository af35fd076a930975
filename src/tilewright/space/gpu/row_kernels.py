"""`RowKernels`: softmax, norms and sums of rows, which threads hold in their registers.

A group of threads reads a row once, in vectors, and keeps it: all reductions over the row and all
that is made of them happen in registers. Partial results are exchanged between threads. Rows that
are too long for that are read again for each step.

One sketch for each number of threads of a row; decisions are the rows of a block of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.errors import ScheduleError
from tilewright.ir.access import inputs_of
from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.nest.kernels import tag_of
from tilewright.nest.loops import known_extent
from tilewright.nest.placement import static_shape
from tilewright.schedule import BlockRV, LoopRV, Schedule, StmtSRef
from tilewright.schedule.analysis import has_trivial_binding, writes_output
from tilewright.space.base import NotApplied, ScheduleRule, schedule_rules
from tilewright.space.conditions import (
    UNUSUAL_BINDING,
    all_before,
    all_iters_spatial,
    constant_extent,
    is_tiled,
    why_not_free,
)
from tilewright.space.cpu.row_fusion import shares_an_operand
from tilewright.space.cpu.vector_reduction import walks_over_neighbours
from tilewright.space.gpu.thin_products import is_thin_product
from tilewright.space.gpu.thread_vectors import (
    inputs_along,
    mark_copy,
    sampled,
    through_registers,
    vector_width,
)

STRUCTURE = "row kernel"
# Rows up to these lengths, and the threads that share one at least.
_THREADS = ((64, 8), (128, 16), (3072, 32), (6144, 64), (16384, 128), (32768, 512))
_LONG_ROW_THREADS = 1024
_MORE_THREADS = 4  # times as many are tried at most, or until each has one vector
_WARP = 32
_BLOCK_THREADS = (64, 128, 256)  # of all rows of a block
_REGISTERS = 64  # elements of a row that a thread holds at most
_HELD_BYTES = 256  # of rows and of what all rows share that a thread holds at most
_LONG_ROW = 32768
_FEW_ROWS = 32  # of which each is the work of one multiprocessor


@dataclass(frozen=True)
class _Rows:
    """The blocks that work on rows: the last one, and those before it, the last one first."""

    last: StmtSRef
    before: tuple[StmtSRef, ...]
    count: int
    length: int
    width: int  # of the last axis of rows

    @property
    def fits(self) -> bool:
        """True if threads can hold a row in registers."""
        return self.length <= _LONG_ROW


@schedule_rules.register("RowKernels")
class RowKernels(ScheduleRule):
    """Makes one kernel of reductions over rows and of what comes before and after them."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """One sketch for each number of threads."""
        sref = sch.get_sref(block)
        if taken := why_not_free(sref):
            return NotApplied(sch, taken)
        if not writes_output(sref):
            return NotApplied(sch, "it does not write an output of the function")
        rows = _rows_of(sch, sref)
        if isinstance(rows, str):
            return NotApplied(sch, rows)
        sketches, reason = [], "no number of threads fits the length of its rows"
        for threads in _threads_of(rows):
            made = sch.copy()
            try:
                _RowBuilder(made, rows, threads).build(block)
            except ScheduleError as error:
                reason = str(error)
                continue
            sketches.append(made)
        return sketches or NotApplied(sch, reason)


# --- what is a row ------------------------------------------------------------------------------


def _rows_of(sch: Schedule, last: StmtSRef) -> _Rows | str:
    """The blocks that work on the same rows, or why there are none."""
    before = all_before(sch, last, stop_at=lambda b: is_tiled(b) or _shares_rows(b))
    blocks = [last, *before]
    reductions = [each for each in blocks if each.block.init is not None]
    if not reductions or _shares_rows(last):
        return "there are no reductions over rows before it"
    if not all(map(has_trivial_binding, blocks)):
        return UNUSUAL_BINDING
    shapes = {_shape_of(each) for each in reductions}
    shape = shapes.pop()
    if shape is None or shapes:
        return "it reduces several axes, or not all reductions are over the same rows"
    count, length, width = shape
    if length > _LONG_ROW and count < _FEW_ROWS:
        return "its rows are too few and too long: one block of threads would have one of them"
    return _Rows(last, tuple(before), count, length, width)


def _shares_rows(block: StmtSRef) -> bool:
    """True for a product in which each row of the matrix is used several times."""
    return shares_an_operand(block) and not is_thin_product(block.block)


def _shape_of(reduction: StmtSRef) -> tuple[int, int, int] | None:
    """Count and length of the rows of a reduction, and their last axis; None if it has no rows."""
    stmt = reduction.block
    sizes = _loop_extents(reduction)
    kinds = [v.iter_type for v in stmt.iter_vars]
    axes = kinds.count(ir.IterType.DATA_PAR)
    is_row = axes > 0 and set(kinds[axes:]) == {ir.IterType.COMM_REDUCE}
    if not is_row or 0 in sizes or not walks_over_neighbours(stmt):
        return None
    count, length = math.prod(sizes[:axes]), math.prod(sizes[axes:])
    return (count, length, sizes[-1]) if length > 1 else None


def _loop_extents(block: StmtSRef) -> list[int]:
    """Extents of all loops, 0 for those that are not known."""
    return [constant_extent(loop) or 0 for loop in block.loops]


def _leading(extents: Sequence[int], count: int) -> int:
    """How many of the first axes are those of the rows."""
    for axes in range(1, len(extents) + 1):
        if math.prod(extents[:axes]) == count:
            return axes
    raise ScheduleError("the rows of a block are not those of the reductions")


def _threads_of(rows: _Rows) -> list[int]:
    """Numbers of threads that may share a row: those that divide it evenly, if there are any."""
    least = next((n for longest, n in _THREADS if rows.length <= longest), _LONG_ROW_THREADS)
    if not rows.fits:
        return [least]
    vectors = rows.length // _width(rows)
    most = min(vectors, _MORE_THREADS * least, 1024)
    sizes = [n for n in (8, 16, *range(_WARP, most + 1, _WARP)) if least <= n <= most]
    tried = [n for n in sizes if rows.length / n <= _REGISTERS] or [least]
    return [n for n in tried if vectors % n == 0] or tried[:1]


def _width(rows: _Rows) -> int:
    """Elements of a vector; long rows are read element by element."""
    blocks = [
        each.block
        for each in (rows.last, *rows.before)
        if math.prod(_loop_extents(each)) > rows.count
    ]
    along = [
        region.buffer.dtype
        for block in blocks
        for region in inputs_along(block, block.iter_vars[-1].var).values()
    ]
    return vector_width(rows.width, along) if rows.fits else 1


# --- how they are computed ----------------------------------------------------------------------


class _RowBuilder:
    def __init__(self, sch: Schedule, rows: _Rows, threads: int) -> None:
        self._sch, self._rows, self._threads = sch, rows, threads
        self._width = _width(rows)

    def build(self, block: BlockRV) -> None:
        """Put all blocks into one kernel."""
        sch = self._sch
        before = [sch.get_block(each.name) for each in self._rows.before]
        before = [each for each in before if not self._inlined(each)]
        self._check_reads([block, *before])
        copies = self._cached_rows([block, *before]) if self._rows.fits else []
        row = self._bound_rows(block)
        for each in before:
            sch.compute_at(each, row, preserve_unit_loops=True)
        for copy in reversed(copies):  # all loads are under way before the first is waited for
            sch.compute_at(copy, row, preserve_unit_loops=True, index=-2)
        for each in before:
            for position in range(len(sch.get_sref(each).block.writes)):
                sch.set_scope(each, position, "local")
        for each in before:
            self._finish(each)
        for copy in copies:
            self._shared_among_threads(copy)
            self._lay_out(copy)
            mark_copy(sch, copy, STRUCTURE)
        self._finish(block)

    def _inlined(self, block: BlockRV) -> bool:
        """Compute elements where they are used, if that is one place or there is no room."""
        sch, stmt = self._sch, self._sch.get_sref(block).block
        elements = math.prod(_loop_extents(sch.get_sref(block)))
        if not all_iters_spatial(stmt) or elements == self._rows.count:
            return False
        is_row = elements == self._rows.count * self._rows.length
        if self._rows.fits and is_row and len(sch.get_consumers(block)) > 1:
            return False
        try:
            sch.compute_inline(block)
        except ScheduleError:
            return False
        return True

    def _check_reads(self, blocks: Sequence[BlockRV]) -> None:
        """A thread has its own elements of a row in registers, and nobody else's."""
        made = self._made(blocks)
        for each in blocks:
            stmt = self._sch.get_sref(each).block
            for region in inputs_of(stmt).values():
                size = math.prod(static_shape(region.buffer, 0))
                is_row = region.buffer in made and size == self._rows.count * self._rows.length
                if is_row and not self._is_own(stmt, region):
                    raise ScheduleError("it reads other elements of a row than it computes")

    def _is_own(self, stmt: ir.Block, region: ir.BufferRegion) -> bool:
        """True if the element that is read is the one computed, of its row or of all rows."""
        iters = [v.var for v in stmt.iter_vars if known_extent(v) != 1]
        read = [
            axis.min if ir.is_one(axis.extent) else None
            for axis, size in zip(region.region, static_shape(region.buffer, 0), strict=True)
            if size != 1
        ]
        own = iters[len(iters) - len(read) :] if read else []
        return len(own) == len(read) and all(a is b for a, b in zip(own, read, strict=True))

    def _cached_rows(self, blocks: Sequence[BlockRV]) -> list[BlockRV]:
        """Copies in registers of what reductions read along their rows, and of what all rows
        share, as far as there is room."""
        sch = self._sch
        readers: dict[ir.Buffer, list[tuple[BlockRV, int]]] = {}
        for each in blocks:
            stmt = sch.get_sref(each).block
            if math.prod(_loop_extents(sch.get_sref(each))) == self._rows.count:
                continue  # one result for a row: it does not walk along it
            for position, region in inputs_along(stmt, stmt.iter_vars[-1].var).items():
                if region.buffer not in self._made(blocks) and self._is_own(stmt, region):
                    readers.setdefault(region.buffer, []).append((each, position))
        copies, left = [], _HELD_BYTES * self._threads
        for buffer, found in sorted(readers.items(), key=lambda item: not self._reduces(item[1])):
            left -= self._rows.length * buffer.dtype.itemsize
            if left >= 0 or self._reduces(found):
                first, position = found[0]
                users = [each for each, _ in found]
                copies.append(sch.cache_read(first, position, "local", users))
        return copies

    def _reduces(self, readers: Sequence[tuple[BlockRV, int]]) -> bool:
        return any(self._sch.get_sref(each).block.init is not None for each, _ in readers)

    def _made(self, blocks: Sequence[BlockRV]) -> set[ir.Buffer]:
        stmts = (self._sch.get_sref(each).block for each in blocks)
        return {region.buffer for stmt in stmts for region in stmt.writes}

    def _bound_rows(self, block: BlockRV) -> LoopRV:
        """The loop over rows, which blocks of threads share, and groups of threads of a block."""
        sch, rows = self._sch, self._rows
        loops = sch.get_loops(block)
        loops = loops[: _leading(_loop_extents(sch.get_sref(block)), rows.count)]
        fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
        counts = [n // self._threads for n in _BLOCK_THREADS]
        together = [n for n in counts if n and rows.count % n == 0] or [1]
        if together == [1]:
            sch.bind(fused, "blockIdx.x")
            return fused
        outer, inner = sch.split(fused, [None, sampled(sch, together)])
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.y")
        return inner

    def _loops_of_row(self, block: BlockRV) -> list[LoopRV]:
        """The loops over the elements of a row; none around a block with one result for a row."""
        sch = self._sch
        loops = [loop for loop in sch.get_loops(block) if not tag_of(sch.get_sref(loop).loop)]
        extents = {loop: constant_extent(sch.get_sref(loop)) or 0 for loop in loops}
        if math.prod(extents.values()) not in (1, self._rows.length):
            raise ScheduleError("it needs several rows of a block before it")
        return [loop for loop, extent in extents.items() if extent > 1]

    def _finish(self, block: BlockRV) -> None:
        """Share the elements of a row among threads."""
        sch = self._sch
        stmt = sch.get_sref(block).block
        sch.annotate(block, TILING_STRUCTURE, STRUCTURE)
        if not self._loops_of_row(block):
            return
        thread = self._shared_among_threads(block)
        if stmt.init is None:
            self._lay_out(block)
            if self._width > 1:
                through_registers(sch, block, thread, STRUCTURE)

    def _shared_among_threads(self, block: BlockRV) -> LoopRV:
        sch = self._sch
        *outer, last = self._loops_of_row(block)
        if (constant_extent(sch.get_sref(last)) or 0) % self._width:
            raise ScheduleError("the axes of its rows differ from those of the reductions")
        vectors, _ = sch.split(last, [None, self._width])
        fused = sch.fuse(*outer, vectors) if outer else vectors
        steps, thread = sch.split(fused, [None, self._threads])
        sch.bind(thread, "threadIdx.x")
        if self._rows.fits:
            sch.unroll(steps)
        return thread

    def _lay_out(self, block: BlockRV) -> None:
        """Put what one thread has of a row next to each other, so that it needs no more room."""
        buffer = self._sch.get_sref(block).block.writes[0].buffer
        if buffer.scope != "local":
            return
        shape, width, threads = static_shape(buffer, 0), self._width, self._threads
        whole = (n for n in range(len(shape)) if math.prod(shape[n:]) == self._rows.length)
        rows = next(whole, None)
        if rows is None:
            raise ScheduleError("its rows are not those of the reductions")

        def digits(*indices: ir.Var) -> list[ir.PrimExpr]:
            j: ir.PrimExpr = ir.const(0)
            for index, extent in zip(indices[rows:], shape[rows:], strict=True):
                j = j * extent + index
            return [*indices[:rows], j // width % threads, j // (width * threads), j % width]

        self._sch.transform_layout(block, ("write", 0), digits, assume_injective_transform=True)
