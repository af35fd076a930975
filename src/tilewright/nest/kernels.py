"""The GPU kernels of a program before lowering: their threads, and what each block does in them.

A kernel is the outermost loop bound to a thread axis with everything below it. Blocks inside other
blocks are not looked into: what a block declares to read and write is all that counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.ir import (
    BlockRealize,
    For,
    IntImm,
    PrimFunc,
    SeqStmt,
    Stmt,
    children,
)


@dataclass(frozen=True)
class Leaf:
    """A block and the loops around it, outermost first, from the outermost of the kernel on."""

    realize: BlockRealize
    loops: tuple[For, ...]


@dataclass
class Kernel:
    """The blocks of a kernel in program order."""

    leaves: list[Leaf] = field(default_factory=list)
    outer_loops: tuple[For, ...] = ()  # of the host, around the kernel


def tag_of(loop: For) -> str:
    """The thread axis a loop is bound to, or an empty text."""
    return "" if loop.thread_binding is None else loop.thread_binding.thread_tag


def extent_of(loop: For) -> int | None:
    """The extent of a loop, if it is a number."""
    return loop.extent.value if isinstance(loop.extent, IntImm) else None


def kernels_of(func: PrimFunc) -> list[Kernel]:
    """The kernels of a function in program order."""
    if not isinstance(func.body, BlockRealize):
        return []
    found: list[Kernel] = []
    _find_kernels(func.body.block.body, (), found)
    return found


def _find_kernels(stmt: Stmt, loops: tuple[For, ...], found: list[Kernel]) -> None:
    match stmt:
        case For() if tag_of(stmt):
            found.append(Kernel([Leaf(r, p) for r, p in _leaves(stmt, ())], loops))
        case For(body=body):
            _find_kernels(body, (*loops, stmt), found)
        case BlockRealize(block=block):
            _find_kernels(block.body, loops, found)
        case _:
            for child in children(stmt):
                if isinstance(child, Stmt):
                    _find_kernels(child, loops, found)


def _leaves(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[tuple[BlockRealize, tuple[For, ...]]]:
    match stmt:
        case For(body=body):
            yield from _leaves(body, (*loops, stmt))
        case BlockRealize():
            yield stmt, loops
        case SeqStmt(seq=parts):
            for part in parts:
                yield from _leaves(part, loops)
        case _:
            for child in children(stmt):
                if isinstance(child, Stmt):
                    yield from _leaves(child, loops)
