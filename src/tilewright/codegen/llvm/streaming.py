"""Stores that go past the caches, below loops marked `pragma_stream_stores`.

An ordinary store first reads the cache line it writes to. For a result that is too large to stay
in the caches that is half of the traffic, and it drives out what is still needed. Such stores must
be aligned, which a caller's memory may not be: the code exists twice, and the address decides.
They are ordered by a fence only. A task of a parallel loop ends with one; elsewhere it comes at
once, before the function can start other threads.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.values import ValueBuilder, zero_of
from tilewright.ir import BufferStore, Node, Var
from tilewright.ir.patterns import nodes_of
from tilewright.target import isa

LINE = 64  # bytes
_SMALLEST = 16  # bytes of a vector that can be stored so


def streamed_pointers(builder: ValueBuilder, body: Node) -> list[Var]:
    """The pointers of callers that a statement stores vectors to; none if the CPU is no x86."""
    if not isa.is_x86(builder.context.target.cpu.triple):
        return []
    stores = (node for node in nodes_of(body, BufferStore) if node.value.dtype.lanes > 1)
    found = dict.fromkeys(node.buffer.data for node in stores)
    return [var for var in found if var not in builder.alignments and var in builder.env]


def are_aligned(builder: ValueBuilder, pointers: list[Var]) -> Value:
    """A bool: all pointers start a cache line."""
    bits: Value | None = None
    for var in pointers:
        number = builder.convert("ptrtoint", builder.env[var], "i64")
        bits = number if bits is None else builder.int_op("or", bits, number)
    assert bits is not None
    rest = builder.int_op("and", bits, Value("i64", str(LINE - 1)))
    return builder.compare("icmp eq", rest, zero_of("i64"))


def streaming(builder: ValueBuilder, pointers: list[Var], emit: Callable[[], None]) -> None:
    """Emit code whose stores to some pointers, which are aligned, go past the caches."""
    for var in pointers:
        builder.alignments[var] = LINE
    builder.streamed.update(pointers)
    emit()
    builder.streamed.difference_update(pointers)
    for var in pointers:
        del builder.alignments[var]
    if not builder.in_parallel:
        fence(builder)


def store_suffix(builder: ValueBuilder, data: Var, size: int, alignment: int) -> str:
    """What makes a store of `size` bytes go past the caches; nothing if it does not."""
    if data not in builder.streamed or size % _SMALLEST or alignment < min(size, LINE):
        return ""
    builder.needs_fence = True
    return f", !nontemporal {builder.context.nontemporal()}"


def fence(builder: ValueBuilder) -> None:
    """Let no later store of this thread be seen before what it has streamed."""
    if builder.needs_fence:
        builder.needs_fence = False
        builder.context.declare("void", "llvm.x86.sse.sfence", "")
        builder.emitter.line("call void @llvm.x86.sse.sfence()")
