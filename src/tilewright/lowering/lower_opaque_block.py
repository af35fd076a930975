"""Blocks vanish: predicates become `if`, buffers become allocations, pragmas become attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.ir.annotation_keys import PERMUTED_LAYOUT, VECTOR_REDUCTION
from tilewright.ir.intrinsics import likely
from tilewright.lowering.base import function_pass
from tilewright.lowering.flatten_buffer import flat_size
from tilewright.lowering.rewriters import FoldingSubstituter

PRAGMA_PREFIX = "pragma_"


class _BlockRemover(FoldingSubstituter):
    def __init__(self) -> None:
        super().__init__({})
        self._pitches: dict[ir.Var, int] = {}  # rows of memory whose layout is to be permuted

    def visit_block_realize(self, node: ir.BlockRealize) -> ir.Stmt:
        block = node.block
        if block.iter_vars:
            raise LowerError(
                f"block {block.name_hint!r} still has iterators; run ConvertBlocksToOpaque first"
            )
        if block.annotations.get(PERMUTED_LAYOUT):
            self._pitches.update(_shared_rows(block))
        predicate = self.visit(node.predicate)
        body: ir.Stmt = self.visit(block.body)
        if VECTOR_REDUCTION in block.annotations:
            body = _mark_loops(body, block.annotations[VECTOR_REDUCTION])
        if not ir.is_true(predicate):
            body = ir.IfThenElse(likely(predicate), body)
        for buffer in reversed(block.alloc_buffers):
            pitch = self._pitches.get(buffer.data)
            notes = {} if pitch is None else {PERMUTED_LAYOUT: pitch}
            body = _allocated(self.visit_buffer(buffer), body, notes)
        return body

    def visit_for(self, node: ir.For) -> ir.Stmt:
        notes = node.annotations
        pragmas = {key: note for key, note in notes.items() if key.startswith(PRAGMA_PREFIX)}
        others = {key: note for key, note in notes.items() if key not in pragmas}
        if ir.is_one(node.extent) and not others and node.kind != ir.ForKind.THREAD_BINDING:
            self.bindings[node.loop_var] = self.visit(node.min)
            body: ir.Stmt = self.visit(node.body)
        else:
            node = ir.map_children(node, self.visit)
            body = ir.replace(node, annotations=others) if pragmas else node
            body = _bound_to_thread(body) if node.kind == ir.ForKind.THREAD_BINDING else body
        for key, value in sorted(pragmas.items(), reverse=True):
            body = ir.AttrStmt(ir.const(0), key, ir.convert(value), body)
        return body


def _shared_rows(block: ir.Block) -> Iterator[tuple[ir.Var, int]]:
    """The distance between rows, in elements, of the shared memory that a block touches."""
    buffers = [region.buffer for region in (*block.reads, *block.writes)]
    shared = [buffer for buffer in buffers if buffer.scope.startswith("shared")]
    if not shared:
        names = ", ".join(buffer.name for buffer in buffers)
        raise LowerError(
            f"block {block.name_hint!r}: {PERMUTED_LAYOUT} is for buffers in shared memory, but "
            f"none of {names} is"
        )
    for buffer in shared:
        pitch = buffer.strides[-2:-1] if buffer.strides else buffer.shape[-1:]
        if buffer.ndim < 2 or not isinstance(pitch[0], ir.IntImm):
            raise LowerError(
                f"block {block.name_hint!r}: {PERMUTED_LAYOUT} needs rows of a known length, but "
                f"{buffer.name} has the shape ({', '.join(map(str, buffer.shape))})"
            )
        yield buffer.data, pitch[0].value


def _allocated(buffer: ir.Buffer, body: ir.Stmt, notes: Mapping[str, int]) -> ir.Stmt:
    """Memory around a statement; that of threads around what they run, not around their launch."""
    match body:
        case ir.AttrStmt(attr_key="thread_extent") if buffer.scope != "global":
            return ir.replace(body, body=_allocated(buffer, body.body, notes))
    # Strides may pad a buffer beyond its shape.
    extents = (flat_size(buffer),) if buffer.strides else buffer.shape
    return ir.Allocate(buffer.data, buffer.dtype, extents, ir.TRUE, body, notes)


def _mark_loops(stmt: ir.Stmt, width: object) -> ir.Stmt:
    """Loops that a block runs inside of it are reduced in vectors if the block says so."""

    def marked(loop: ir.For) -> ir.For:
        return ir.replace(loop, annotations={**loop.annotations, VECTOR_REDUCTION: width})

    return ir.rewrite(stmt, before={ir.For: marked})


def _bound_to_thread(loop: ir.For) -> ir.Stmt:
    thread = loop.thread_binding
    if thread is None:
        raise LowerError(f"loop {loop.loop_var.name} is bound to a thread but names none")
    key = "virtual_thread" if thread.thread_tag.startswith("vthread") else "thread_extent"
    body = FoldingSubstituter({loop.loop_var: thread.var + loop.min}).rewrite(loop.body)
    launched = ir.replace(thread, dom=ir.Range(ir.const(0, loop.extent.dtype), loop.extent))
    return ir.AttrStmt(launched, key, loop.extent, body)


@function_pass
def LowerOpaqueBlock(func: ir.PrimFunc) -> ir.PrimFunc:
    """Remove blocks that have no iterators left, and loops that run once."""
    return func.with_body(_BlockRemover().rewrite(func.body))
