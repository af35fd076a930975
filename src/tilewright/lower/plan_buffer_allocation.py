"""Buffers are allocated where they are needed: at the innermost scope around all their accesses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.ir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IterType,
    MatchBufferRegion,
    PrimExpr,
    PrimFunc,
    Stmt,
    Var,
    Visitor,
    free_vars,
    replace,
    root_realize,
)
from tilewright.lower.base import FunctionPass, register_pass
from tilewright.lower.walk import StmtRewriter
from tilewright.target import Target

Scope = For | Block


class _AccessScopes(Visitor):
    """For each allocated buffer, the innermost scope that contains all its accesses."""

    def __init__(self) -> None:
        self.common: dict[Buffer, tuple[Scope, ...]] = {}
        self._path: list[Scope] = []
        self._by_data: dict[Var, list[Buffer]] = {}
        # For buffers that the current block writes: how deep they may move.
        self._write_limit: list[tuple[set[Buffer], int]] = []

    def visit_for(self, node: For) -> None:
        self._path.append(node)
        self.generic_visit(node)
        self._path.pop()

    def visit_block_realize(self, node: BlockRealize) -> None:
        for value in node.iter_values:
            self.visit(value)
        self.visit(node.predicate)
        block = node.block
        for buffer in block.alloc_buffers:
            self._by_data.setdefault(buffer.data, []).append(buffer)
        written = {region.buffer for region in block.writes}
        self._write_limit.append((written, self._reduction_depth(node)))
        self._path.append(block)
        for part in (block.init, block.body, *block.match_buffers):
            if part is not None:
                self.visit(part)
        self._path.pop()
        self._write_limit.pop()

    def _reduction_depth(self, node: BlockRealize) -> int:
        """How much of the path lies outside all loops that carry values from step to step."""
        carriers = [
            var
            for iter_var, value in zip(node.block.iter_vars, node.iter_values, strict=True)
            if iter_var.iter_type != IterType.DATA_PAR
            for var in _vars_of(value)
        ]
        for depth, scope in enumerate(self._path):
            if isinstance(scope, For) and any(scope.loop_var is var for var in carriers):
                return depth
        return len(self._path) + 1

    def visit_buffer_load(self, node: BufferLoad) -> None:
        self._access(node.buffer)
        self.generic_visit(node)

    def visit_buffer_store(self, node: BufferStore) -> None:
        self._access(node.buffer)
        self.generic_visit(node)

    def visit_match_buffer_region(self, node: MatchBufferRegion) -> None:
        self._access(node.source.buffer)

    def visit_var(self, node: Var) -> None:
        for buffer in self._by_data.get(node, ()):
            self._access(buffer)

    def _access(self, buffer: Buffer) -> None:
        depth = len(self._path)
        for written, limit in self._write_limit:
            if buffer in written:
                depth = min(depth, limit)
        path = tuple(self._path[:depth])
        known = self.common.get(buffer)
        self.common[buffer] = path if known is None else _common_prefix(known, path)


def _vars_of(value: PrimExpr) -> list[Var]:
    return [value] if isinstance(value, Var) else free_vars(value)


def _common_prefix(a: tuple[Scope, ...], b: tuple[Scope, ...]) -> tuple[Scope, ...]:
    length = 0
    for left, right in zip(a, b, strict=False):
        if left is not right:
            break
        length += 1
    return a[:length]


class _Placer(StmtRewriter):
    def __init__(self, at: dict[Scope, list[Buffer]], managed: set[Buffer]) -> None:
        self._at = at
        self._managed = managed

    def visit_for(self, node: For) -> Stmt:
        new: For = self.generic_visit(node)
        buffers = self._at.get(node)
        if not buffers:
            return new
        block = Block((), (), (), "", new.body, alloc_buffers=tuple(buffers))
        return replace(new, body=root_realize(block))

    def visit_block(self, node: Block) -> Stmt:
        new: Block = self.generic_visit(node)
        kept = [buffer for buffer in node.alloc_buffers if buffer not in self._managed]
        buffers = (*kept, *self._at.get(node, ()))
        if len(buffers) == len(node.alloc_buffers) and all(map(_is, buffers, node.alloc_buffers)):
            return new
        return replace(new, alloc_buffers=buffers)


def _is(a: Any, b: Any) -> bool:
    return a is b


@register_pass
@dataclass(frozen=True)
class PlanBufferAllocation(FunctionPass):
    """Move the allocation of each buffer to the lowest common ancestor of its accesses."""

    name: ClassVar[str] = "PlanBufferAllocation"

    def run_function(self, func: PrimFunc, target: Target | None = None) -> PrimFunc:
        allocated = _Allocations()
        allocated.visit(func.body)
        if not allocated.found:
            return func
        scopes = _AccessScopes()
        scopes.visit(func.body)
        placed: dict[Scope, list[Buffer]] = {}
        for buffer in allocated.found:
            path = scopes.common.get(buffer)
            if path:
                placed.setdefault(path[-1], []).append(buffer)
        return func.with_body(_Placer(placed, set(allocated.found)).rewrite(func.body))


class _Allocations(Visitor):
    """All buffers that blocks allocate, in program order."""

    def __init__(self) -> None:
        self.found: dict[Buffer, None] = {}

    def visit_prim_expr(self, node: PrimExpr) -> None:
        """Expressions hold no blocks."""

    def visit_block(self, node: Block) -> None:
        self.found.update(dict.fromkeys(node.alloc_buffers))
        self.generic_visit(node)
