"""Blocks vanish: predicates become `if`, buffers become allocations, pragmas become attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.errors import LowerError
from tilewright.ir import (
    TRUE,
    Allocate,
    AttrStmt,
    BlockRealize,
    Buffer,
    For,
    ForKind,
    IfThenElse,
    PrimExpr,
    PrimFunc,
    Range,
    Stmt,
    const,
    convert,
    is_one,
    is_true,
    map_children,
    replace,
)
from tilewright.ir.annotation_keys import VECTOR_REDUCTION
from tilewright.ir.intrinsics import likely
from tilewright.lowering.base import function_pass
from tilewright.lowering.flatten_buffer import flat_size
from tilewright.lowering.rewriters import FoldingSubstituter

PRAGMA_PREFIX = "pragma_"


def allocation_extents(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """How much memory a buffer needs; strides may pad it beyond its shape."""
    return (flat_size(buffer),) if buffer.strides else buffer.shape


class _BlockRemover(FoldingSubstituter):
    def visit_block_realize(self, node: BlockRealize) -> Stmt:
        block = node.block
        if block.iter_vars:
            raise LowerError(
                f"block {block.name_hint!r} still has iterators; run ConvertBlocksToOpaque before"
            )
        predicate = self.visit(node.predicate)
        body: Stmt = self.visit(block.body)
        if VECTOR_REDUCTION in block.annotations:
            body = _mark_loops(body, block.annotations[VECTOR_REDUCTION])
        if not is_true(predicate):
            body = IfThenElse(likely(predicate), body)
        for buffer in reversed(block.alloc_buffers):
            buffer = self.visit_buffer(buffer)
            body = Allocate(buffer.data, buffer.dtype, allocation_extents(buffer), TRUE, body)
        return body

    def visit_for(self, node: For) -> Stmt:
        pragmas, others = _split_pragmas(node.annotations)
        if is_one(node.extent) and not others and node.kind != ForKind.THREAD_BINDING:
            self.bindings[node.loop_var] = self.visit(node.min)
            body: Stmt = self.visit(node.body)
        else:
            node = map_children(node, self.visit)
            body = replace(node, annotations=others) if pragmas else node
            body = _bound_to_thread(body) if node.kind == ForKind.THREAD_BINDING else body
        for key, value in sorted(pragmas.items(), reverse=True):
            body = AttrStmt(const(0), key, convert(value), body)
        return body


def _mark_loops(stmt: Stmt, width: Any) -> Stmt:
    """Loops that a block runs inside of it are reduced in vectors if the block says so."""
    if isinstance(stmt, For):
        return replace(stmt, annotations={**stmt.annotations, VECTOR_REDUCTION: width})
    return map_children(stmt, lambda n: _mark_loops(n, width) if isinstance(n, Stmt) else n)


def _split_pragmas(annotations: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    pragmas = {key: value for key, value in annotations.items() if key.startswith(PRAGMA_PREFIX)}
    return pragmas, {key: value for key, value in annotations.items() if key not in pragmas}


def _bound_to_thread(loop: For) -> Stmt:
    thread = loop.thread_binding
    if thread is None:
        raise LowerError(f"loop {loop.loop_var.name} is bound to a thread but names none")
    key = "virtual_thread" if thread.thread_tag.startswith("vthread") else "thread_extent"
    body = FoldingSubstituter({loop.loop_var: thread.var + loop.min}).rewrite(loop.body)
    launched = replace(thread, dom=Range(const(0, loop.extent.dtype), loop.extent))
    return AttrStmt(launched, key, loop.extent, body)


@function_pass
def LowerOpaqueBlock(func: PrimFunc) -> PrimFunc:
    """Remove blocks that have no iterators left, and loops that run once."""
    return func.with_body(_BlockRemover({}).rewrite(func.body))
