"""Tiles that threads gather, where bulk copies cannot: odd strides, few channels, any windows.

A tile is made of chunks of 16 bytes along the sum, which lie in shared memory as bulk copies would
put them. A thread loads all its chunks into registers before it stores the first one, so that many
loads are under way. Neighbouring threads take neighbouring rows, or the chunks of one row:
whichever touches less memory at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.ir.intrinsics import address_of, bitwise_and, bitwise_xor, call_extern, reinterpret
from tilewright.lowering.gpu.tile_kernels.building import UINT32, loop, run, when
from tilewright.lowering.gpu.tile_kernels.staging import StagedImage
from tilewright.lowering.gpu.tile_kernels.tensor_maps import ROW_BYTES
from tilewright.lowering.gpu.tile_kernels.tile_form import Operand, TileAxis, source_of

_THREADS = 128
_CHUNK = 16  # bytes that are stored at once
_CHUNKS = ROW_BYTES // _CHUNK
_MOST_CHUNKS = 8  # in the registers of a thread
_NEAR = 32  # bytes between rows of which few lie in a line of the cache each


@dataclass(frozen=True)
class Gathering:
    """How the threads of a warp group gather the tiles of an operand."""

    operand: Operand
    image: StagedImage | None = None  # in shared memory; None: they find it in memory

    @property
    def _rows(self) -> TileAxis:
        return self.operand.copy.axes[self.operand.row]

    @property
    def _depth(self) -> TileAxis:
        return self.operand.copy.axes[self.operand.depth]

    @property
    def _itemsize(self) -> int:
        return self.operand.copy.store.buffer.dtype.itemsize

    @property
    def loads(self) -> int:
        """Of all warps, for one tile."""
        return self._rows.extent * self._depth.extent // (32 * self.width())

    def statement(
        self,
        thread: ir.PrimExpr,
        address: ir.PrimExpr,
        place: Mapping[ir.Var, ir.PrimExpr],
        staged: ir.PrimExpr,
    ) -> ir.Stmt:
        """Gather one tile; `thread` is a number in the group, `staged` where an image lies."""
        rows, turns = self._rows.extent, -(-self._rows.extent // _THREADS)
        along_rows = self._is_along_rows()
        chunks = turns * _CHUNKS if along_rows else rows * _CHUNKS // _THREADS
        at_once = next(n for n in range(min(chunks, _MOST_CHUNKS), 0, -1) if chunks % n == 0)
        words = ir.decl_buffer((4 * at_once,), UINT32, "words", scope="local")

        def at(number: ir.PrimExpr) -> tuple[ir.PrimExpr, ir.PrimExpr]:
            """The row of a chunk of this thread, and which of the row's chunks it is."""
            if along_rows:
                row = ir.floormod(number, turns) * _THREADS + thread
                return row, ir.floordiv(number, turns)
            row = number * (_THREADS // _CHUNKS) + ir.floordiv(thread, _CHUNKS)
            return row, ir.floormod(thread, _CHUNKS)

        def batch(first: ir.Var) -> ir.Stmt:
            def load(chunk: ir.Var) -> ir.Stmt:
                row, part = at(first * at_once + chunk)
                return ir.seq(self._loads(words, chunk, (row, part), place, staged))

            def store(chunk: ir.Var) -> ir.Stmt:
                row, part = at(first * at_once + chunk)
                shift = row * ROW_BYTES + bitwise_xor(part, bitwise_and(row, 7)) * _CHUNK
                values = [self._stored(words[chunk * 4 + word]) for word in range(4)]
                return run("tw_store_words", address + ir.cast(UINT32, shift), *values)

            loads = loop("chunk", at_once, load, unrolled=True)
            return ir.seq([loads, loop("chunk", at_once, store, unrolled=True)])

        body = loop("batch", chunks // at_once, batch, unrolled=True)
        if along_rows and rows < _THREADS:
            body = when(ir.less(thread, rows), body)
        block = ir.Block((), (), (), "gather", body, alloc_buffers=(words,))
        return ir.BlockRealize((), ir.TRUE, block)

    def _stored(self, word: ir.PrimExpr) -> ir.PrimExpr:
        """A word as tensor cores want it: of float32 they would cut digits off without rounding."""
        if str(self.operand.copy.store.buffer.dtype) != "float32":
            return word
        return call_extern(UINT32, "tw_tf32", reinterpret("float32", word))

    def _is_along_rows(self) -> bool:
        """Whether neighbouring threads take neighbouring rows."""
        if self._rows.extent > _THREADS and self._rows.extent % _THREADS:
            return False
        if self.image is not None:
            return True
        rows, depth = (abs(self._step(axis.var)) for axis in (self._rows, self._depth))
        return rows * self._itemsize <= _NEAR or depth > rows

    def _step(self, var: ir.Var) -> int:
        """How far the second element along an iterator is from the first one."""
        load, _ = source_of(self.operand.copy)
        offset = load.buffer.offset_of(load.indices)
        start = dict.fromkeys(self.operand.copy.axes, ir.const(0))
        ends = (ir.substitute(offset, {**start, var: ir.const(n)}) for n in (0, 1))
        first, second = (Analyzer().simplify(each) for each in ends)
        assert isinstance(first, ir.IntImm)
        assert isinstance(second, ir.IntImm)
        return second.value - first.value

    # --- loads ----------------------------------------------------------------------------------

    def _loads(
        self,
        words: ir.Buffer,
        chunk: ir.PrimExpr,
        at: tuple[ir.PrimExpr, ir.PrimExpr],
        place: Mapping[ir.Var, ir.PrimExpr],
        staged: ir.PrimExpr,
    ) -> Sequence[ir.Stmt]:
        """Loads of one chunk; what is outside of the array is zero."""
        (row, part), width, size = at, self.width(), self._itemsize
        per_chunk = _CHUNK // size
        calls = []
        for first in range(0, _CHUNK, max(4, width * size)):
            target = address_of(words[chunk * 4 + first // 4])
            args: list[ir.ExprLike] = []
            for element in range(first // size, (first + max(4, width * size)) // size, width):
                args += self._source(row, part * per_chunk + element, place, staged)
            name = "tw_gather" if self.image is None else "tw_take"
            calls.append(run(f"{name}_{width * size}", target, *args))
        return calls

    def _source(
        self,
        row: ir.PrimExpr,
        depth: ir.PrimExpr,
        place: Mapping[ir.Var, ir.PrimExpr],
        staged: ir.PrimExpr,
    ) -> tuple[ir.PrimExpr, ir.PrimExpr]:
        """The address of an element, and whether it exists."""
        axes = self.operand.copy.axes
        offsets = {self.operand.row: row, self.operand.depth: depth}
        values = {
            var: ir.substitute(axis.origin, place) + offsets.get(var, ir.const(0))
            for var, axis in axes.items()
        }
        inside: ir.PrimExpr
        if self.image is not None:
            first = ir.substitute(self._rows.origin, place)
            where = self.image.address(first, values[self._rows.var], values[self._depth.var])
            inside = ir.less(values[self._depth.var], self._depth.size)
            return staged + where, ir.cast(ir.INT32, inside)
        load, guard = source_of(self.operand.copy)
        inside = ir.TRUE if guard is None else ir.substitute(guard, values)
        for var, axis in axes.items():
            if axis.is_divided:
                inside = ir.logical_and(ir.less(values[var], axis.size), inside)
        source = ir.substitute(load, values)
        assert isinstance(source, ir.BufferLoad)
        return address_of(source), ir.cast(ir.INT32, inside)

    def width(self) -> int:
        """How many elements that follow each other along the sum one load can bring."""
        widest = _CHUNK // self._itemsize
        widths = (widest, widest // 2, widest // 4)
        return next((width for width in widths if self._is_whole(width)), 1)

    def _is_whole(self, width: int) -> bool:
        """Whether `width` elements along the sum are contiguous, aligned, and exist together."""
        if self._depth.size % width:
            return False
        load, guard = source_of(self.operand.copy)
        group, lane = ir.Var("group", ir.INT32), ir.Var("lane", ir.INT32)
        analyzer = self.operand.copy.analyzer()
        analyzer.bind(group, ir.Range(ir.const(0), ir.const(self._depth.size // width)))
        analyzer.bind(lane, ir.Range(ir.const(0), ir.const(width)))
        here, there = ({self._depth.var: group * width + n} for n in (lane, 0))
        offset = load.buffer.offset_of(load.indices)
        first = ir.substitute(offset, there)
        if not analyzer.can_prove_equal(ir.substitute(offset, here), first + lane):
            return False
        if not analyzer.can_prove_equal(ir.floormod(first, width), 0):
            return False
        return guard is None or _is_same(analyzer, guard, here, there)


def _is_same(
    analyzer: Analyzer,
    guard: ir.PrimExpr,
    here: Mapping[ir.Var, ir.PrimExpr],
    there: Mapping[ir.Var, ir.PrimExpr],
) -> bool:
    """Whether a condition is the same at two places, as far as simplification tells."""
    return str(analyzer.simplify(ir.substitute(guard, here))) == str(
        analyzer.simplify(ir.substitute(guard, there))
    )
