"""Buffers in scope `amx.tmm` become the tile registers of the CPU, or plain memory.

The instructions that work on tiles name their registers, the same ones for every such buffer: it
needs no memory, but only one may be in use at a time, and it must be just as large as what the
instructions take. A buffer that no such instruction touches (on a target that has none, their
descriptions stand in the program) is memory like any other. A process must ask the system before
it may use tiles, so a function that does so starts by asking.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.ir.intrinsics import call_extern
from tilewright.ir.visit import Substituter
from tilewright.lowering.base import function_pass

TILE_SCOPE = "amx.tmm"
MAY_USE_TILES = "may_use_tiles"  # the attribute of code that runs when the system agreed
REQUEST_SYMBOL = "tw_request_tiles"  # of the native runtime; returns 0 if the system agrees
REFUSED = (
    "the system does not let this process use AMX tiles (arch_prctl ARCH_REQ_XCOMP_PERM was "
    "refused); build for a target without amx-tile, e.g. -mattr=-amx-tile"
)

_INSTRUCTIONS = ("llvm.x86.tile", "llvm.x86.tdp")
# Calls of code that may use tiles for its own ends, as any function may.
_FOREIGN_CALLS = frozenset(
    {"tir.call_extern", "tir.call_pure_extern", "tir.call_packed", "tir.tvm_call_packed"}
)


def is_tile_instruction(symbol: str) -> bool:
    """True if an LLVM intrinsic works on tile registers."""
    return symbol.startswith(_INSTRUCTIONS)


def _op_name(call: ir.Call) -> str:
    return call.op.name if isinstance(call.op, ir.Op) else ""


def _intrinsic(call: ir.PrimExpr) -> str:
    """The name of the LLVM intrinsic that is called."""
    if not isinstance(call, ir.Call) or _op_name(call) != "tir.call_llvm_intrin" or not call.args:
        return ""
    return call.args[0].value if isinstance(call.args[0], ir.StringImm) else ""


# --- is there anything to do? -------------------------------------------------------------------


def _statements(stmt: ir.Stmt, outside_parallel: bool = False) -> Iterator[ir.Stmt]:
    """Statements below one, expressions left out: most programs have nothing to do with tiles."""

    def enters(node: ir.Stmt) -> bool:
        return not isinstance(node, ir.For) or node.kind is not ir.ForKind.PARALLEL

    return ir.walk_statements(stmt, into=enters if outside_parallel else None)


def _issued(statements: Iterable[ir.Node]) -> set[str]:
    """The LLVM intrinsics that statements call."""
    return {_intrinsic(node.value) for node in statements if isinstance(node, ir.Evaluate)}


def needs_tiles(stmt: ir.Stmt, outside_parallel: bool = False) -> bool:
    """True if tiles must be configured for a statement: one that does it by itself needs no help.

    With `outside_parallel` the bodies of parallel loops do not count.
    """
    issues = any(map(is_tile_instruction, _issued(_statements(stmt, outside_parallel))))
    return issues and "llvm.x86.ldtilecfg" not in _issued(_statements(stmt))


# --- how tiles are used -------------------------------------------------------------------------


@dataclass
class _TileUse:
    """What happens to one buffer; times count statements in program order."""

    buffer: ir.Buffer
    depth: int  # number of loops outside its allocation
    first: int | None = None
    last: int = 0
    block_of_instructions: str = ""
    block_of_accesses: str = ""  # that load or store elements

    @property
    def in_registers(self) -> bool:
        return bool(self.block_of_instructions)

    def extend(self, start: int, end: int) -> None:
        self.first = start if self.first is None else min(self.first, start)
        self.last = max(self.last, end)

    def is_live(self, time: int) -> bool:
        return self.first is not None and self.first <= time <= self.last


@dataclass
class _Frame:
    """A loop, and the buffers from outside that are used in it."""

    start: int
    used: set[ir.Buffer] = field(default_factory=set)


class _Uses(ir.Visitor):
    def __init__(self, func: ir.PrimFunc) -> None:
        self._place = f"function {func.name!r}"
        self.uses: dict[ir.Buffer, _TileUse] = {}
        self.foreign: list[tuple[int, str]] = []  # when, and what
        self._views: dict[ir.Buffer, ir.Buffer] = {}
        self._blocks: list[ir.Block] = []
        self._frames: list[_Frame] = []
        self._in_parallel = False
        self._time = 0
        for buffer in func.buffer_map.values():
            if buffer.scope == TILE_SCOPE:
                self._fail(f"parameter {buffer.name} is in scope {TILE_SCOPE!r}, which no caller "
                           "can pass; use scope 'global'")  # fmt: skip

    def _fail(self, what: str) -> NoReturn:
        raise LowerError(f"{self._place}: {what}")

    def visit_for(self, node: ir.For) -> None:
        outermost = node.kind is ir.ForKind.PARALLEL and not self._in_parallel
        if outermost:
            self._note_foreign(f"the parallel loop {node.loop_var.name!r}")
            self._in_parallel = True
        self._frames.append(_Frame(self._time + 1))  # what came before is no part of it
        self.generic_visit(node)
        frame = self._frames.pop()
        # A value may live from one iteration to the next: all of the loop counts.
        for buffer in frame.used:
            self.uses[buffer].extend(frame.start, self._time)
        if outermost:
            self._in_parallel = False

    def visit_block(self, node: ir.Block) -> None:
        for buffer in node.alloc_buffers:
            if buffer.scope == TILE_SCOPE:
                self.uses[buffer] = _TileUse(buffer, len(self._frames))
        for match in node.match_buffers:
            self._views[match.buffer] = self._source(match.source.buffer)
        self._blocks.append(node)
        self.visit(node.body)
        self._blocks.pop()

    def _source(self, buffer: ir.Buffer) -> ir.Buffer:
        return self._views.get(buffer, buffer)

    def visit_buffer_store(self, node: ir.BufferStore | ir.BufferLoad) -> None:
        use = self.uses.get(self._source(node.buffer))
        if use is not None:
            use.block_of_accesses = self._blocks[-1].name_hint
        self.generic_visit(node)

    visit_buffer_load = visit_buffer_store

    def visit_call(self, node: ir.Call) -> None:
        if is_tile_instruction(_intrinsic(node)):
            self._issue()
        elif _op_name(node) in _FOREIGN_CALLS:
            self._note_foreign(f"`{node}`")
        self.generic_visit(node)

    def _note_foreign(self, what: str) -> None:
        self._time += 1
        self.foreign.append((self._time, what))

    def _issue(self) -> None:
        """An instruction counts for all tiles that its block has a view of."""
        self._time += 1
        block = self._blocks[-1] if self._blocks else None
        for match in block.match_buffers if block is not None else ():
            use = self.uses.get(self._source(match.source.buffer))
            if use is None or block is None:
                continue
            use.block_of_instructions = block.name_hint
            self._check_size(use, match)
            use.extend(self._time, self._time)
            for frame in self._frames[use.depth :]:
                frame.used.add(use.buffer)

    def _check_size(self, use: _TileUse, match: ir.MatchBufferRegion) -> None:
        held, wanted = _size(use.buffer), _size(match.buffer)
        if held == wanted:
            return
        shape = "x".join(map(str, use.buffer.shape))
        tile = "x".join(map(str, match.buffer.shape))
        self._fail(
            f"buffer {use.buffer.name} holds {shape} results at a time, block "
            f"{use.block_of_instructions!r} works on {tile}; tile registers hold what one "
            "instruction takes: store the results inside the loops over tiles "
            "(reverse_compute_at), or use larger instructions"
        )

    def check(self) -> None:
        """Raise unless the registers hold what is asked of them."""
        held = [use for use in self.uses.values() if use.in_registers]
        for use in held:
            if use.block_of_accesses:
                self._fail(
                    f"block {use.block_of_accesses!r} accesses elements of {use.buffer.name}, "
                    f"which block {use.block_of_instructions!r} keeps in tile registers; tensorize "
                    "it as well (amx_fill_... sets results to zero, amx_store_... copies them to "
                    "memory)"
                )
            for time, what in self.foreign:
                if use.is_live(time):
                    self._fail(
                        f"{what} runs while buffer {use.buffer.name} is in tile registers, which "
                        "no call preserves; move it before the first or after the last use"
                    )
        for number, one in enumerate(held):
            for other in held[number + 1 :]:
                if one.is_live(other.first or 0) or other.is_live(one.first or 0):
                    self._fail(
                        f"buffers {one.buffer.name} and {other.buffer.name} are in use at the same "
                        "time, but there are tile registers for only one of them; store the "
                        "results of one before the other is filled"
                    )


def _size(buffer: ir.Buffer) -> int | None:
    extents = [extent.value for extent in buffer.shape if isinstance(extent, ir.IntImm)]
    return math.prod(extents) if len(extents) == len(buffer.shape) else None


# --- the program without them -------------------------------------------------------------------


def _in_memory(pointer: ir.Var) -> ir.Var | None:
    """Another pointer instead of one to tiles."""
    kind = pointer.type_annotation
    if not isinstance(kind, ir.PointerType) or kind.storage_scope != TILE_SCOPE:
        return None
    return ir.replace(pointer, type_annotation=ir.replace(kind, storage_scope="local"))


class _Replacer(Substituter):
    """Registers vanish; the other buffers of the scope move to memory."""

    def __init__(self, registers: set[ir.Buffer]) -> None:
        super().__init__(functools.cache(_in_memory))
        self._gone = set(registers)  # and views of them

    def visit_block(self, node: ir.Block) -> ir.Block:
        for match in node.match_buffers:
            if match.source.buffer in self._gone:
                self._gone.add(match.buffer)
        node = ir.replace(
            node,
            match_buffers=tuple(m for m in node.match_buffers if m.buffer not in self._gone),
            reads=self._kept(node.reads),
            writes=self._kept(node.writes),
            alloc_buffers=tuple(b for b in node.alloc_buffers if b not in self._gone),
        )
        return super().visit_block(node)

    def _kept(self, regions: tuple[ir.BufferRegion, ...]) -> tuple[ir.BufferRegion, ...]:
        return tuple(region for region in regions if region.buffer not in self._gone)


@function_pass
def TileRegisters(func: ir.PrimFunc) -> ir.PrimFunc:
    """Give buffers in scope `amx.tmm` the tile registers, or memory where none are used."""
    statements = list(_statements(func.body))
    has_instructions = any(map(is_tile_instruction, _issued(statements)))
    blocks = [node for node in statements if isinstance(node, ir.Block)]
    scopes = {buffer.scope for block in blocks for buffer in block.alloc_buffers}
    if not has_instructions and TILE_SCOPE not in scopes:
        return func
    uses = _Uses(func)
    uses.visit(func.body)
    uses.check()
    registers = {buffer for buffer, use in uses.uses.items() if use.in_registers}
    body: ir.Stmt = _Replacer(registers).rewrite(func.body)
    if has_instructions:
        body = ir.AttrStmt(ir.const(0), MAY_USE_TILES, ir.const(1), body)
        body = ir.AssertStmt(ir.equal(call_extern("int32", REQUEST_SYMBOL), 0), REFUSED, body)
    return func.with_body(body)
