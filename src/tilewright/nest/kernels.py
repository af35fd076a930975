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


def tag_of(loop: For) -> str:
    """The thread axis a loop is bound to, or an empty text."""
    return "" if loop.thread_binding is None else loop.thread_binding.thread_tag


def extent_of(loop: For) -> int | None:
    """The extent of a loop, if it is a number."""
    return loop.extent.value if isinstance(loop.extent, IntImm) else None


def kernels_of(func: PrimFunc) -> list[Kernel]:
    """The kernels of a function in program order."""
    return list(_kernels(func.body.block.body)) if isinstance(func.body, BlockRealize) else []


def _kernels(stmt: Stmt) -> Iterator[Kernel]:
    if isinstance(stmt, For) and tag_of(stmt):
        yield Kernel([Leaf(realize, loops) for realize, loops in _leaves(stmt, ())])
        return
    for child in (stmt.block.body,) if isinstance(stmt, BlockRealize) else children(stmt):
        if isinstance(child, Stmt):
            yield from _kernels(child)


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
