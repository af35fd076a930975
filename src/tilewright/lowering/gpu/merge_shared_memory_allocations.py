"""Buffers in shared memory whose lives do not overlap use the same bytes.

Dynamic shared memory is always one array of bytes, of which buffers are parts. Static buffers stay
arrays of their own unless that takes clearly more bytes than parts of one array would, and all
become dynamic if they do not fit into what a kernel may declare statically. Barriers come later
(`ThreadSync`), and see that buffers share bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import ir
from tilewright.lowering.base import function_pass
from tilewright.lowering.gpu.threads import launched_tag
from tilewright.lowering.liveness import LinearAccess, live_ranges
from tilewright.lowering.storage_rewrite import scope_of

STATIC_BYTES = 48 * 1024  # what a kernel may declare; more has to be asked for at the launch
_SAVED_BYTES = 256  # at least: bytes that are used again cost a barrier
STATIC, DYNAMIC = "shared", "shared.dyn"
_NAMES = {STATIC: "buf_shmem", DYNAMIC: "buf_dyn_shmem"}
_ALIGNMENT, _LARGE_ALIGNMENT = 16, 128


@dataclass(frozen=True)
class _Piece:
    """A buffer with its bytes and the statements, in linear order, during which it lives."""

    var: ir.Var
    bytes: int
    first: int
    last: int

    @property
    def alignment(self) -> int:
        return _LARGE_ALIGNMENT if self.bytes >= _LARGE_ALIGNMENT else _ALIGNMENT

    def lives_with(self, other: _Piece) -> bool:
        return self.first <= other.last and other.first <= self.last


def _pieces(kernel: ir.Stmt) -> dict[str, list[_Piece]]:
    """The buffers in shared memory, by scope."""
    access = LinearAccess()
    access.visit(kernel)
    events = live_ranges(access.entries)
    first = {var: place for place, born in events.gen.items() for var in born}
    last = {var: place for place, dead in events.kill.items() for var in dead}
    pieces: dict[str, list[_Piece]] = {STATIC: [], DYNAMIC: []}
    for var, allocation in access.allocations.items():
        scope, dtype = scope_of(var), allocation.node.dtype
        if scope in pieces and var in first:
            size = allocation.size * dtype.nbytes
            pieces[scope].append(_Piece(var, size, first[var], last[var]))
    return pieces


@dataclass(frozen=True)
class _Arena:
    """One array of bytes, and where in it each buffer begins."""

    var: ir.Var
    bytes: int
    offsets: Mapping[ir.Var, int]


def _arena(scope: str, pieces: Sequence[_Piece]) -> _Arena:
    """Large buffers first, each at the lowest place that is free while it lives."""
    placed: list[tuple[int, _Piece]] = []
    for piece in sorted(pieces, key=lambda piece: (-piece.bytes, piece.first)):
        taken = [(at, other) for at, other in placed if other.lives_with(piece)]
        placed.append((_lowest(piece, taken), piece))
    size = max((at + piece.bytes for at, piece in placed), default=0)
    pointer = ir.PointerType(ir.DType("uint8"), scope)
    offsets = {piece.var: at for at, piece in placed}
    return _Arena(ir.Var(_NAMES[scope], ir.HANDLE, pointer), size, offsets)


def _lowest(piece: _Piece, taken: Iterable[tuple[int, _Piece]]) -> int:
    at = 0
    for start, other in sorted(taken, key=lambda item: item[0]):
        if at + piece.bytes <= start:
            break
        at = max(at, start + other.bytes)
        at += -at % piece.alignment
    return at


def _arenas(kernel: ir.Stmt) -> list[_Arena]:
    pieces = _pieces(kernel)
    static, dynamic = pieces[STATIC], pieces[DYNAMIC]
    packed = _arena(STATIC, static)
    if packed.bytes > STATIC_BYTES:
        return [_arena(DYNAMIC, [*static, *dynamic])]
    arenas = [_arena(DYNAMIC, dynamic)] if dynamic else []
    if sum(piece.bytes for piece in static) - packed.bytes >= _SAVED_BYTES:
        arenas.append(packed)
    return arenas


class _Merger(ir.BufferRewriter):
    def __init__(self, arenas: Sequence[_Arena]) -> None:
        self._home = {var: arena for arena in arenas for var in arena.offsets}
        self._buffers: dict[ir.Buffer, ir.Buffer] = {}

    def visit_allocate(self, node: ir.Allocate) -> Any:
        if node.buffer_var in self._home:
            return self.visit(node.body)
        return ir.map_children(node, self.visit)

    def visit_buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        arena = self._home.get(buffer.data)
        if arena is None:
            return buffer
        if buffer not in self._buffers:
            shape = (ir.const(arena.bytes // buffer.dtype.nbytes, buffer.shape[0].dtype),)
            self._buffers[buffer] = ir.replace(buffer, data=arena.var, shape=shape)
        return self._buffers[buffer]

    def with_buffer(self, node: Any) -> Any:
        buffer = self.visit_buffer(node.buffer)
        if buffer is node.buffer:
            return node
        offset = self._elements(node.buffer.data, node.buffer.dtype)
        return ir.replace(node, buffer=buffer, indices=(_moved(node.indices[0], offset),))

    def _elements(self, data: ir.Var, dtype: ir.DType) -> int:
        return self._home[data].offsets[data] // dtype.nbytes

    def visit_call(self, node: ir.Call) -> Any:
        """Pointers come with an offset in elements behind them."""
        args = list(node.args)
        for place, arg in enumerate(node.args[:-1]):
            if isinstance(arg, ir.Var) and arg in self._home:
                dtype = node.args[0].dtype if node.op is _ACCESS_PTR else _element(arg)
                args[place] = self._home[arg].var
                args[place + 1] = args[place + 1] + self._elements(arg, dtype)
        return ir.map_children(ir.replace(node, args=tuple(args)), self.visit)

    def visit_var(self, node: ir.Var) -> ir.Var:
        return self._home[node].var if node in self._home else node


_ACCESS_PTR = ir.Op.get("tir.tvm_access_ptr")


def _element(data: ir.Var) -> ir.DType:
    pointer = data.type_annotation
    assert pointer is not None
    return ir.DType(str(pointer.element_type))


def _moved(index: ir.PrimExpr, offset: int) -> ir.PrimExpr:
    if offset == 0:
        return index
    if isinstance(index, ir.Ramp):
        return ir.Ramp(_moved(index.base, offset), index.stride, index.lanes)
    lanes, step = index.dtype.lanes, ir.const(offset, index.dtype.element_of)
    return index + (ir.Broadcast(step, lanes) if lanes > 1 else step)


def _merged(launch: ir.AttrStmt) -> ir.Stmt | None:
    """The innermost launch of a kernel with one array of bytes, or two, inside."""
    if not launched_tag(launch) or launched_tag(launch.body):
        return None
    arenas = _arenas(launch.body)
    body = _Merger(arenas).rewrite(launch.body) if arenas else launch.body
    for arena in arenas:
        extents = (ir.const(arena.bytes),)
        body = ir.Allocate(arena.var, ir.DType("uint8"), extents, ir.TRUE, body)
    return ir.updated(launch, body=body)


@function_pass
def MergeSharedMemoryAllocations(func: ir.PrimFunc) -> ir.PrimFunc:
    """Let buffers in shared memory use the same bytes one after another."""
    return ir.rewrite(func, before={ir.AttrStmt: _merged})
