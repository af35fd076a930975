"""The GPU kernels of a program before lowering: their threads, and what each block does in them.

A kernel is the outermost loop bound to a thread axis with everything below it. Blocks inside other
blocks are not looked into: what a block declares to read and write is all that counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright import ir


@dataclass(frozen=True)
class Leaf:
    """A block and the loops around it, outermost first, from the outermost of the kernel on."""

    realize: ir.BlockRealize
    loops: tuple[ir.For, ...]


@dataclass
class Kernel:
    """The blocks of a kernel in program order."""

    leaves: list[Leaf] = field(default_factory=list)


def tag_of(loop: ir.For) -> str:
    """The thread axis a loop is bound to, or an empty text."""
    return "" if loop.thread_binding is None else loop.thread_binding.thread_tag


def kernels_of(func: ir.PrimFunc) -> list[Kernel]:
    """The kernels of a function in program order."""
    return list(_kernels(func.body.block.body)) if isinstance(func.body, ir.BlockRealize) else []


def _kernels(stmt: ir.Stmt) -> Iterator[Kernel]:
    if isinstance(stmt, ir.For) and tag_of(stmt):
        yield Kernel(list(_leaves(stmt)))
        return
    for child in ir.statements_in(stmt.block if isinstance(stmt, ir.BlockRealize) else stmt):
        yield from _kernels(child)


def _leaves(kernel: ir.For) -> Iterator[Leaf]:
    outside = ir.with_loops(kernel, into=lambda stmt: not isinstance(stmt, ir.BlockRealize))
    for stmt, loops in outside:
        if isinstance(stmt, ir.BlockRealize):
            yield Leaf(stmt, loops)
