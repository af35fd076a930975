"""Memory that a thread allocates for itself becomes a part of one array for all threads.

A kernel cannot allocate memory of the device, so the host does, for as long as the kernel runs.
Elements of neighbouring threads lie next to each other, as threads mostly move on together.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.lowering.base import function_pass
from tilewright.lowering.gpu.threads import launched_tag, launches_of
from tilewright.lowering.rewriters import StmtRewriter
from tilewright.lowering.storage_rewrite import scope_of


class _Workspaces(ir.BufferRewriter):
    """Takes allocations out of one kernel."""

    def __init__(self, count: ir.PrimExpr, number: ir.PrimExpr) -> None:
        self._count, self._number = count, number
        self.moved: dict[ir.Var, ir.Allocate] = {}  # by the pointer in the kernel
        self._buffers: dict[ir.Buffer, ir.Buffer] = {}

    def visit_allocate(self, node: ir.Allocate) -> Any:
        if scope_of(node.buffer_var) == "global":
            if not all(isinstance(extent, ir.IntImm) for extent in node.extents):
                raise LowerError(
                    f"{node.buffer_var.name!r} is allocated in a kernel with a size that is "
                    "not a constant; allocate it outside of the kernel"
                )
            self.moved[node.buffer_var] = node
            return self.visit(node.body)
        return ir.map_children(node, self.visit)

    def visit_buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        if buffer.data not in self.moved:
            return buffer
        if buffer not in self._buffers:
            shape = (buffer.shape[0] * self._count,)
            self._buffers[buffer] = ir.replace(buffer, shape=shape)
        return self._buffers[buffer]

    def with_buffer(self, node: Any) -> Any:
        buffer = self.visit_buffer(node.buffer)
        if buffer is node.buffer:
            return node
        (index,) = node.indices
        if index.dtype.lanes > 1:
            raise LowerError(
                f"{buffer.name!r} is allocated in a kernel and accessed in vectors; allocate it "
                "outside of the kernel"
            )
        return ir.replace(node, buffer=buffer, indices=(index * self._count + self._number,))


class _Kernels(StmtRewriter):
    def visit_attr_stmt(self, node: ir.AttrStmt) -> ir.Stmt:
        if not launched_tag(node):
            return self.generic_visit(node)
        count: ir.PrimExpr = ir.const(1)
        number: ir.PrimExpr = ir.const(0)
        for launch in launches_of(node):
            extent = ir.cast(ir.INT32, launch.value)
            count = count * extent
            number = number * extent + ir.cast(ir.INT32, launch.node.var)
        workspaces = _Workspaces(count, number)
        kernel: ir.Stmt = workspaces.rewrite(node)
        for var, moved in workspaces.moved.items():
            size = math.prod(extent.value for extent in moved.extents)  # type: ignore[attr-defined]
            kernel = ir.Allocate(var, moved.dtype, (count * size,), ir.TRUE, kernel)
        return kernel


@function_pass
def MoveWorkspaces(func: ir.PrimFunc) -> ir.PrimFunc:
    """Let the host allocate memory that threads work in."""
    return func.with_body(_Kernels().rewrite(func.body))
