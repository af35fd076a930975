"""Resources of GPU kernels that are lowered already: launches, allocations and vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright import ir
from tilewright.space.gpu.vector_widths import LaneView

_LAUNCHES = ("thread_extent", "virtual_thread")


def lowered_kernels(stmt: ir.Stmt) -> Iterator[KernelNeeds]:
    """The needs of each outermost launch of threads with no block in it."""
    if not is_launch(stmt):
        for child in ir.children(stmt):
            if isinstance(child, ir.Stmt):
                yield from lowered_kernels(child)
    elif not _has_block(stmt):
        needs = KernelNeeds()
        needs.visit(stmt)
        yield needs


def is_launch(stmt: ir.Stmt) -> bool:
    """Does the statement start threads?"""
    match stmt:
        case ir.AttrStmt():
            return stmt.attr_key in _LAUNCHES
        case ir.For():
            return stmt.thread_binding is not None
    return False


def _has_block(node: ir.Node) -> bool:
    return isinstance(node, ir.BlockRealize) or any(map(_has_block, ir.children(node)))


@dataclass
class KernelNeeds(ir.Visitor):
    """Extents of the threads by axis, bytes of memory, and bytes of the widest vector.

    A size that is no constant is infinite.
    """

    threads: dict[str, set[float]] = field(default_factory=dict)
    shared_bytes: float = 0
    local_bytes: float = 0
    vector_bytes: float = 0

    def visit_attr_stmt(self, node: ir.AttrStmt) -> None:
        if node.attr_key in _LAUNCHES and isinstance(node.node, ir.IterVar):
            self._launch(node.node.thread_tag, node.value)
        self.generic_visit(node)

    def visit_for(self, node: ir.For) -> None:
        if node.thread_binding is not None:
            self._launch(node.thread_binding.thread_tag, node.extent)
        lanes = _size(node.extent)
        if node.kind is ir.ForKind.VECTORIZED and 1 < lanes < math.inf:
            widths = LaneView(node.body, {}, node.loop_var, int(lanes)).widths()
            self.vector_bytes = max([self.vector_bytes, *widths])
        self.generic_visit(node)

    def _launch(self, tag: str, extent: ir.PrimExpr) -> None:
        self.threads.setdefault(tag, set()).add(_size(extent))

    def visit_allocate(self, node: ir.Allocate) -> None:
        pointer = node.buffer_var.type_annotation
        scope = pointer.storage_scope if isinstance(pointer, ir.PointerType) else ""
        size = math.prod(map(_size, node.extents)) * _bytes(node.dtype)
        if scope.startswith("shared"):
            self.shared_bytes += size
        elif scope == "local":
            self.local_bytes += size
        self._vector(node.dtype)
        self.generic_visit(node)

    def visit_buffer_load(self, node: ir.BufferLoad) -> None:
        self._vector(node.dtype)
        self.generic_visit(node)

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        self._vector(node.value.dtype)
        self.generic_visit(node)

    def visit_cast(self, node: ir.Cast) -> None:
        self._vector(node.dtype)
        self.generic_visit(node)

    def visit_ramp(self, node: ir.Ramp) -> None:
        if _size(node.stride) != 1:  # lanes with gaps between them need a vector of indices
            self._vector(node.dtype)
        self.generic_visit(node)

    def _vector(self, dtype: ir.DType) -> None:
        if dtype.lanes > 1:
            self.vector_bytes = max(self.vector_bytes, _bytes(dtype))


def _size(extent: ir.PrimExpr) -> float:
    return extent.value if isinstance(extent, ir.IntImm) else math.inf


def _bytes(dtype: ir.DType) -> int:
    return -(-dtype.bits // 8) * dtype.lanes
