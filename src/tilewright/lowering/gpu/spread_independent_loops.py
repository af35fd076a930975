"""Loops without an order inside of blocks that threads cannot see into.

Operators that are made of statements, such as sorts and running totals, are one block each, which
one thread would carry out. Their outermost loops say that their turns do not depend on each other
(they are parallel, or annotated): each turn becomes the work of a thread.
"""

from __future__ import annotations

from tilewright import ir
from tilewright.ir.annotation_keys import INDEPENDENT
from tilewright.lowering.base import function_pass
from tilewright.lowering.gpu.threads import bound_tag

_TAGS = ("blockIdx.x", "threadIdx.x")
# Threads wait for memory most of the time, so they are spread over all of a GPU first.
_FEW = 1 << 14
_THREADS, _THREADS_OF_FEW = 128, 32


def _shared_out(node: ir.For) -> ir.Stmt | None:
    realize = block_of_one_thread(node)
    loops = [] if realize is None else _independent_loops(realize.block)
    if realize is None or not loops:
        return None
    return ir.seq(_spread(realize, loop) for loop in loops)


def block_of_one_thread(node: ir.For) -> ir.BlockRealize | None:
    """The block that a launch of a single thread runs, if it is that and has no iterators."""
    tags: list[str] = []
    stmt: ir.Stmt = node
    while isinstance(stmt, ir.For) and bound_tag(stmt) and ir.is_one(stmt.extent):
        tags.append(bound_tag(stmt))
        stmt = stmt.body
    if tuple(tags) != _TAGS or not isinstance(stmt, ir.BlockRealize):
        return None
    return None if stmt.block.iter_vars or stmt.block.alloc_buffers else stmt


def _independent_loops(block: ir.Block) -> list[ir.For]:
    """The loops that a block is made of; none if it is made of anything else."""
    parts = ir.statements_of(block.body)
    loops = [part for part in parts if isinstance(part, ir.For) and _is_independent(part)]
    return loops if len(loops) == len(parts) else []


def _is_independent(loop: ir.For) -> bool:
    return loop.kind == ir.ForKind.PARALLEL or INDEPENDENT in loop.annotations


def _spread(realize: ir.BlockRealize, loop: ir.For) -> ir.Stmt:
    """One thread for each turn of a loop."""
    turns, dtype = loop.extent, loop.loop_var.dtype
    is_few = isinstance(turns, ir.IntImm) and turns.value <= _FEW
    threads = ir.const(_THREADS_OF_FEW if is_few else _THREADS, dtype)
    block, thread = (ir.Var(name, dtype) for name in ("row_block", "row_thread"))
    turn = block * threads + thread
    body = ir.substitute(loop.body, {loop.loop_var: loop.min + turn})
    guarded = ir.IfThenElse(ir.less(turn, turns), body)
    one = ir.replace(realize, block=ir.replace(realize.block, body=guarded))
    extents = (ir.floordiv(turns + (threads - 1), threads), threads)
    return bound_to_threads(one, extents, (block, thread))


def bound_to_threads(
    stmt: ir.Stmt,
    extents: tuple[ir.PrimExpr, ir.PrimExpr],
    places: tuple[ir.Var, ir.Var],
) -> ir.Stmt:
    """A statement for all threads of all blocks, the variables of which are given."""
    for var, extent, tag in reversed(list(zip(places, extents, _TAGS, strict=True))):
        axis = ir.IterVar(None, var, ir.IterType.THREAD_INDEX, tag)
        zero = ir.const(0, var.dtype)
        stmt = ir.For(var, zero, extent, ir.ForKind.THREAD_BINDING, stmt, axis)
    return stmt


@function_pass
def SpreadIndependentLoops(func: ir.PrimFunc) -> ir.PrimFunc:
    """Share loops without an order among threads."""
    return ir.rewrite(func, before={ir.For: _shared_out})
