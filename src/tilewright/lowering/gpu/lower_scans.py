"""Running totals along an axis, by all threads of a block where the axis lies along memory.

`topi.cumsum` and `topi.cumprod` are statements for one thread after another, with a note that says
what they compute. Of an axis along memory each thread takes a few neighbours; warps exchange their
totals by shuffles, and through shared memory. Along any other axis neighbouring threads have
neighbouring totals, which they carry on step by step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright import ir
from tilewright.ir.annotation_keys import RUNNING_TOTALS
from tilewright.ir.intrinsics import call_intrin, if_then_else
from tilewright.lowering.base import function_pass
from tilewright.lowering.gpu.spread_independent_loops import block_of_one_thread, bound_to_threads

_WARP = 32
_MASK = 0xFFFFFFFF
_TAKEN = 4  # neighbours that a thread adds up by itself
_ENOUGH_ROWS = 1024  # to be the work of one warp each
_MOST_WARPS = 16
_THREADS = 128  # of a block, where each has a total of its own


@dataclass(frozen=True)
class _Scan:
    """What is computed: `rows` before the scanned axis, `length` along it, `columns` behind it."""

    data: ir.Buffer
    out: ir.Buffer
    is_product: bool
    is_exclusive: bool
    rows: int
    length: int
    columns: int

    @property
    def dtype(self) -> ir.DType:
        return self.out.dtype.accumulator

    @property
    def start(self) -> ir.PrimExpr:
        return ir.const(int(self.is_product), self.dtype)

    def joined(self, *values: ir.PrimExpr) -> ir.PrimExpr:
        result = values[0]
        for value in values[1:]:
            result = result * value if self.is_product else result + value
        return result

    def _places(self, buffer: ir.Buffer, place: ir.PrimExpr) -> list[ir.PrimExpr]:
        """Indices of an element by its number."""
        indices = []
        for extent in reversed(_sizes(buffer)):
            indices.append(place % extent)
            place = place // extent
        return indices[::-1]

    def read(self, place: ir.PrimExpr) -> ir.PrimExpr:
        return ir.cast(self.dtype, ir.BufferLoad(self.data, tuple(self._places(self.data, place))))

    def write(self, place: ir.PrimExpr, total: ir.PrimExpr) -> ir.Stmt:
        indices = tuple(self._places(self.out, place))
        return ir.BufferStore(self.out, ir.cast(self.out.dtype, total), indices)


def _sizes(buffer: ir.Buffer) -> list[int]:
    return [extent.value if isinstance(extent, ir.IntImm) else 0 for extent in buffer.shape]


def _scan_of(block: ir.Block) -> _Scan | None:
    """What the note of a block says; None without one, or if sizes are not known."""
    note = block.annotations.get(RUNNING_TOTALS)
    if note is None:
        return None
    is_product, axis, is_exclusive = (int(number) for number in note)
    (data,), (out,) = ([region.buffer for region in side] for side in (block.reads, block.writes))
    sizes = _sizes(data)
    if 0 in sizes:
        return None
    if axis < 0:
        rows, length, columns = 1, math.prod(sizes), 1
    else:
        rows, length, columns = math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])
    return _Scan(data, out, bool(is_product), bool(is_exclusive), rows, length, columns)


def _together(node: ir.For) -> ir.Stmt | None:
    realize = block_of_one_thread(node)
    scan = None if realize is None else _scan_of(realize.block)
    if realize is None or scan is None:
        return None
    made = _AlongMemory(scan) if scan.columns == 1 else _Across(scan)
    block = ir.replace(realize.block, body=made.body(), alloc_buffers=tuple(made.buffers))
    return bound_to_threads(ir.replace(realize, block=block), made.extents, made.places)


class _Across:
    """A thread for each total."""

    def __init__(self, scan: _Scan) -> None:
        self._scan = scan
        self.places = ir.Var("group", ir.INT32), ir.Var("thread", ir.INT32)
        count = scan.rows * scan.columns
        self.extents = ir.const(-(-count // _THREADS)), ir.const(_THREADS)
        self._total = ir.decl_buffer((1,), scan.dtype, "total", scope="local")
        self.buffers = [self._total]

    def body(self) -> ir.Stmt:
        scan, total = self._scan, self._total
        number = self.places[0] * _THREADS + self.places[1]
        first = number // scan.columns * (scan.length * scan.columns) + number % scan.columns
        step = ir.Var("t", ir.INT32)
        place = first + step * scan.columns
        add = ir.BufferStore(total, scan.joined(total[0], scan.read(place)), (ir.const(0),))
        write = scan.write(place, total[0])
        steps = ir.seq([write, add] if scan.is_exclusive else [add, write])
        loop = ir.For(step, ir.const(0), ir.const(scan.length), ir.ForKind.SERIAL, steps)
        start = ir.BufferStore(total, scan.start, (ir.const(0),))
        return ir.IfThenElse(ir.less(number, scan.rows * scan.columns), ir.seq([start, loop]))


class _AlongMemory:
    """A block of threads for each row."""

    def __init__(self, scan: _Scan) -> None:
        self._scan = scan
        needed = -(-scan.length // (_WARP * _TAKEN))
        self._warps = 1 if scan.rows >= _ENOUGH_ROWS else min(needed, _MOST_WARPS)
        self._threads = self._warps * _WARP
        self.places = ir.Var("row", ir.INT32), ir.Var("thread", ir.INT32)
        self.extents = ir.const(scan.rows), ir.const(self._threads)
        self._carry = ir.decl_buffer((1,), scan.dtype, "carry", scope="local")
        self._own = ir.decl_buffer((_TAKEN,), scan.dtype, "own", scope="local")
        self._slots = ir.decl_buffer((self._warps,), scan.dtype, "slots", scope="shared")
        self.buffers = [self._carry, self._own, *([self._slots] if self._warps > 1 else [])]

    def body(self) -> ir.Stmt:
        scan, at_once = self._scan, self._threads * _TAKEN
        step = ir.Var("step", ir.INT32)
        count = -(-scan.length // at_once)
        loop = ir.For(step, ir.const(0), ir.const(count), ir.ForKind.SERIAL, self._step(step))
        return ir.seq([_put(self._carry, 0, scan.start), loop])

    def _step(self, step: ir.Var) -> ir.Stmt:
        """Totals of as many elements as the threads take at once."""
        scan, (row, thread) = self._scan, self.places
        lane = thread % _WARP
        first = step * (self._threads * _TAKEN) + thread * _TAKEN
        names: list[tuple[ir.Var, ir.PrimExpr]] = []

        def named(value: ir.PrimExpr) -> ir.Var:
            names.append((ir.Var("total", scan.dtype), value))
            return names[-1][0]

        def taken(source: ir.PrimExpr, value: ir.PrimExpr) -> ir.PrimExpr:
            options = (ir.const(_MASK, "uint32"), value, source, _WARP, _WARP)
            return call_intrin(scan.dtype, "tir.tvm_warp_shuffle", *options)

        current = named(self._own[_TAKEN - 1])
        distance = 1
        while distance < _WARP:
            other = named(taken(ir.maximum(lane - distance, 0), current))
            added = scan.joined(other, current)
            current = named(ir.Select(ir.less(lane, distance), current, added))
            distance *= 2
        before = named(taken(ir.maximum(lane - 1, 0), current))
        before = named(ir.Select(ir.equal(lane, 0), scan.start, before))
        whole = named(taken(ir.const(_WARP - 1), current))
        finish = self._finish(row * scan.length, first, before)
        after = finish(self._carry[0], whole)
        if self._warps > 1:
            after = self._between_warps(lane, whole, finish)
        for var, value in reversed(names):
            after = ir.LetStmt(var, value, after)
        return ir.seq([*self._own_totals(row * scan.length, first), after])

    def _own_totals(self, base: ir.PrimExpr, first: ir.PrimExpr) -> list[ir.Stmt]:
        """What a thread adds up by itself."""
        scan, steps = self._scan, []
        for number in range(_TAKEN):
            place = first + number
            inside = ir.less(place, scan.length)
            value = if_then_else(inside, scan.read(base + place), scan.start)
            total = scan.joined(self._own[number - 1], value) if number else value
            steps.append(_put(self._own, number, total))
        return steps

    def _finish(self, base: ir.PrimExpr, first: ir.PrimExpr, before: ir.PrimExpr) -> _Finish:
        return _Finish(self._scan, self._carry, self._own, base, first, before)

    def _between_warps(self, lane: ir.PrimExpr, whole: ir.Var, finish: _Finish) -> ir.Stmt:
        """Each warp has to know the totals of all others."""
        scan, warp = self._scan, self.places[1] // _WARP
        slot = ir.BufferStore(self._slots, whole, (warp,))
        names = [ir.Var("slot", scan.dtype) for _ in range(self._warps)]
        ahead: ir.PrimExpr = self._carry[0]
        everything = scan.start
        for number, name in enumerate(names):
            counted = ir.Select(ir.less(number, warp), name, scan.start)
            ahead, everything = scan.joined(ahead, counted), scan.joined(everything, name)
        body = finish(ahead, everything)
        for number, name in reversed(list(enumerate(names))):
            body = ir.LetStmt(name, self._slots[number], body)
        return ir.seq([ir.IfThenElse(ir.equal(lane, 0), slot), body])


@dataclass(frozen=True)
class _Finish:
    """Writes the totals of a thread, and carries on the total of all."""

    scan: _Scan
    carry: ir.Buffer
    own: ir.Buffer
    base: ir.PrimExpr
    first: ir.PrimExpr
    before: ir.PrimExpr  # the total of the lanes before

    def __call__(self, ahead: ir.PrimExpr, whole: ir.PrimExpr) -> ir.Stmt:
        scan = self.scan
        offset = ir.Var("offset", scan.dtype)
        stores = []
        for number in range(_TAKEN):
            last = number - int(scan.is_exclusive)
            total = scan.joined(offset, self.own[last]) if last >= 0 else offset
            place = self.first + number
            write = scan.write(self.base + place, total)
            stores.append(ir.IfThenElse(ir.less(place, scan.length), write))
        carried = _put(self.carry, 0, scan.joined(self.carry[0], whole))
        return ir.LetStmt(offset, scan.joined(ahead, self.before), ir.seq([*stores, carried]))


def _put(buffer: ir.Buffer, place: int, value: ir.PrimExpr) -> ir.Stmt:
    return ir.BufferStore(buffer, value, (ir.const(place),))


@function_pass
def LowerScans(func: ir.PrimFunc) -> ir.PrimFunc:
    """Let threads compute running totals together."""
    return ir.rewrite(func, before={ir.For: _together})
