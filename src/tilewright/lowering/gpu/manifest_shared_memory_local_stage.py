"""Copies into shared memory that say so go through registers, in two statements.

A software pipeline can then load from global memory early and store to shared memory late.
"""

from __future__ import annotations

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.ir.annotation_keys import MANIFEST_SHARED_MEMORY_LOCAL_STAGE
from tilewright.ir.clone import Cloner
from tilewright.lowering.base import function_pass


def _with_registers(node: ir.SeqStmt) -> ir.Stmt:
    made: list[ir.Stmt] = []
    allocated: list[ir.Buffer] = []
    for each in node.seq:
        loops, realize = _nest(each)
        if realize is None or not _is_marked(realize.block):
            made.append(each)
            continue
        register, load, store = _staged(loops, realize)
        allocated.append(register)
        made += [load, store]
    if not allocated:
        return node
    block = ir.Block((), (), (), "", ir.seq(made), alloc_buffers=tuple(allocated))
    return ir.root_realize(block)


def _is_marked(block: ir.Block) -> bool:
    return bool(block.annotations.get(MANIFEST_SHARED_MEMORY_LOCAL_STAGE))


def _nest(stmt: ir.Stmt) -> tuple[list[ir.For], ir.BlockRealize | None]:
    loops = []
    while isinstance(stmt, ir.For):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt if isinstance(stmt, ir.BlockRealize) else None


def _staged(loops: list[ir.For], realize: ir.BlockRealize) -> tuple[ir.Buffer, ir.Stmt, ir.Stmt]:
    """A register, and the copies into it and out of it."""
    block, store = realize.block, realize.block.body
    if not isinstance(store, ir.BufferStore):
        raise LowerError(
            f"block {block.name_hint!r} is to go through registers, but it does not copy elements; "
            f"remove its annotation {MANIFEST_SHARED_MEMORY_LOCAL_STAGE!r}"
        )
    shape = [loop.extent for loop in loops] or [ir.const(1)]
    register = ir.decl_buffer(
        shape, store.buffer.dtype, f"{store.buffer.name}_local", scope="local"
    )
    at = tuple(ir.subtract(loop.loop_var, loop.min) for loop in loops) or (ir.const(0),)
    load = ir.BufferStore(register, store.value, at)
    keep = ir.replace(store, value=ir.BufferLoad(register, at))
    copies = []
    for part, reads, writes in (
        (load, block.reads, (ir.BufferRegion.from_point(register, at),)),
        (keep, (ir.BufferRegion.from_point(register, at),), block.writes),
    ):
        notes = {
            key: value
            for key, value in block.annotations.items()
            if key != MANIFEST_SHARED_MEMORY_LOCAL_STAGE and part is keep
        }
        own = ir.replace(block, body=part, reads=reads, writes=writes, annotations=notes)
        copies.append(_around(loops, ir.replace(realize, block=own)))
    return register, copies[0], Cloner().rewrite(copies[1])


def _around(loops: list[ir.For], body: ir.Stmt) -> ir.Stmt:
    for loop in reversed(loops):
        body = ir.replace(loop, body=body)
    return body


@function_pass
def ManifestSharedMemoryLocalStage(func: ir.PrimFunc) -> ir.PrimFunc:
    """Copy marked blocks into registers first, and from there into shared memory."""
    return ir.rewrite(func, {ir.SeqStmt: _with_registers})
