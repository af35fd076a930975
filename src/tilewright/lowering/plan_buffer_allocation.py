"""Buffers are allocated where they are needed: at the innermost scope around all their accesses.

A buffer moves into a loop only if it carries no values from one iteration to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.ir.annotation_keys import BUFFER_DIM_ALIGN
from tilewright.ir.node import NodeT, common_prefix
from tilewright.lowering.base import function_pass
from tilewright.lowering.carried_values import carries_values
from tilewright.lowering.rewriters import StmtRewriter, thread_tag

Scope = ir.For | ir.Block


class AccessScopes(ir.Visitor):
    """For each allocated buffer, its own scope and the scopes that contain all its accesses."""

    def __init__(self) -> None:
        self.own: dict[ir.Buffer, int] = {}  # how deep the block that allocates it lies
        self.common: dict[ir.Buffer, tuple[Scope, ...]] = {}
        self.path: tuple[Scope, ...] = ()
        self.by_data: dict[ir.Var, list[ir.Buffer]] = {}

    def visit_for(self, node: ir.For) -> None:
        outer, self.path = self.path, (*self.path, node)
        self.generic_visit(node)
        self.path = outer

    def visit_block(self, block: ir.Block) -> None:
        outer, self.path = self.path, (*self.path, block)
        for buffer in block.alloc_buffers:
            self.by_data.setdefault(buffer.data, []).append(buffer)
            self.own[buffer] = len(self.path)
        for part in (*block.match_buffers, block.init, block.body):
            if part is not None:
                self.visit(part)
        self.path = outer

    def visit_buffer_load(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        self.access(node.buffer.data, self.path)
        self.generic_visit(node)

    visit_buffer_store = visit_buffer_load

    def visit_match_buffer_region(self, node: ir.MatchBufferRegion) -> None:
        self.access(node.source.buffer.data, self.path)

    def visit_var(self, node: ir.Var) -> None:
        if node.dtype.is_handle:
            self.access(node, self.path)

    def access(self, data: ir.Var, path: tuple[Scope, ...]) -> None:
        """Note an access to memory, which may have several names."""
        for buffer in self.by_data.get(data, ()):
            known = self.common.get(buffer)
            self.common[buffer] = path if known is None else common_prefix(known, path)


def _innermost(buffer: ir.Buffer, path: tuple[Scope, ...], own: int) -> Scope:
    """The innermost scope of `path` that may hold the buffer, at least the one it is in now."""
    for depth in range(len(path), own, -1):
        tag = thread_tag(path[depth - 1])
        if buffer.scope.startswith("shared") and tag.startswith("threadIdx"):
            continue  # outside of the threads that share it
        loops = [scope for scope in path[own:depth] if isinstance(scope, ir.For)]
        if not loops:
            return path[depth - 1]
        analyzer = Analyzer()
        around = [scope for scope in path[:depth] if isinstance(scope, ir.For)]
        for loop in around:
            analyzer.bind(loop.loop_var, loop.domain, allow_override=True)
        if not carries_values(path[depth - 1].body, buffer, analyzer, loops=around):
            return path[depth - 1]
    return path[own - 1]


def _within_kernel(
    buffer: ir.Buffer, path: tuple[Scope, ...], own: int
) -> tuple[tuple[Scope, ...], int]:
    """The scopes that may hold a buffer, where kernels lie among them.

    Memory of the device outlives kernels and is allocated around them; that of a block of threads,
    of a warp or of a thread exists inside of them alone.
    """
    tags = [thread_tag(scope) for scope in path]
    threads = [depth for depth, tag in enumerate(tags) if tag.startswith(("blockIdx", "threadIdx"))]
    if not threads:
        return path, own
    if buffer.scope == "global":
        return path[: max(threads[0], own)], own
    if buffer.scope.startswith("shared"):
        blocks = [depth for depth in threads if tags[depth].startswith("blockIdx")]
        return path, max(own, (blocks or threads[:1])[-1] + 1)
    return path, max(own, threads[-1] + 1)


class _Placer(StmtRewriter):
    """Allocates each buffer at its place; regions of a block name only what is allocated around it.

    A region may name a buffer that the block never touches, or one that moved into the block.
    """

    def __init__(self, at: dict[Scope, list[ir.Buffer]], managed: set[ir.Buffer]) -> None:
        self._at = at
        self._managed = managed
        self._hidden = set(managed)

    def visit_for(self, node: ir.For) -> ir.Stmt:
        buffers = self._at.get(node, ())
        new = self._inside(node, buffers)
        if not buffers:
            return new
        block = ir.Block((), (), (), "", new.body, alloc_buffers=tuple(buffers))
        return ir.replace(new, body=ir.root_realize(block))

    def visit_block(self, node: ir.Block) -> ir.Stmt:
        new = self._inside(node, self._at.get(node, ()))
        kept = [buffer for buffer in node.alloc_buffers if buffer not in self._managed]
        buffers = (*kept, *self._at.get(node, ()))
        reads, writes = self._visible(node.reads), self._visible(node.writes)
        if len(reads) + len(writes) < len(node.reads) + len(node.writes):
            annotations = _renumbered(node, writes)
            new = ir.replace(new, reads=reads, writes=writes, annotations=annotations)
        return new if buffers == node.alloc_buffers else ir.replace(new, alloc_buffers=buffers)

    def _inside(self, node: NodeT, buffers: Iterable[ir.Buffer]) -> NodeT:
        self._hidden.difference_update(buffers)
        new = self.generic_visit(node)
        self._hidden.update(buffers)
        return new

    def _visible(self, regions: tuple[ir.BufferRegion, ...]) -> tuple[ir.BufferRegion, ...]:
        return tuple(region for region in regions if region.buffer not in self._hidden)


def _renumbered(block: ir.Block, kept: tuple[ir.BufferRegion, ...]) -> Mapping[str, object]:
    """Annotations of a block of whose writes only `kept` are left: alignments follow them."""
    entries = block.annotations.get(BUFFER_DIM_ALIGN)
    if not entries or len(kept) == len(block.writes):
        return block.annotations
    place = {region.buffer: number for number, region in enumerate(kept)}
    moved = []
    for number, *alignment in entries:
        if not 0 <= int(number) < len(block.writes):
            return block.annotations  # a mistake that a later pass reports
        buffer = block.writes[int(number)].buffer
        if buffer in place:
            moved.append([place[buffer], *alignment])
    return {**block.annotations, BUFFER_DIM_ALIGN: moved}


@function_pass
def PlanBufferAllocation(func: ir.PrimFunc) -> ir.PrimFunc:
    """Move the allocation of each buffer to the lowest common ancestor of its accesses."""
    scopes = AccessScopes()
    scopes.visit(func.body)
    if not scopes.own:
        return func
    placed: dict[Scope, list[ir.Buffer]] = {}
    for buffer, own in scopes.own.items():
        path = scopes.common.get(buffer)
        if path:
            path, own = _within_kernel(buffer, path, own)
            placed.setdefault(_innermost(buffer, path, own), []).append(buffer)
    return func.with_body(_Placer(placed, set(scopes.own)).rewrite(func.body))
