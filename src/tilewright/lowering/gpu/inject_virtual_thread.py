"""Virtual threads: one thread does the work of several, statement by statement.

A statement that depends on the virtual thread runs for each of them before the next statement does,
all others run once. Memory that is allocated inside and differs between virtual threads exists
once for each.
"""

from __future__ import annotations

from typing import Any

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.lowering.base import function_pass
from tilewright.lowering.gpu.threads import VIRTUAL_THREAD
from tilewright.lowering.rewriters import FoldingSubstituter

_ACCESS_PTR = ir.Op.get("tir.tvm_access_ptr")


class _Touched(ir.Visitor):
    """Finds the variables and the memory that depend on a virtual thread."""

    def __init__(self, thread: ir.Var, body: ir.Stmt) -> None:
        allocations = ir.nodes_of(body, ir.Allocate)
        self._owned = {node.buffer_var for node in allocations}
        self.touched: set[ir.Var] = {thread}
        self._depends = 0  # depth of constructs that depend on the virtual thread
        known = 0
        while known < len(self.touched):
            known = len(self.touched)
            self.visit(body)

    def depends(self, node: ir.Node) -> bool:
        """True when something in a statement or expression differs between virtual threads."""
        for each in ir.walk(node):
            if isinstance(each, ir.BufferLoad | ir.BufferStore):
                if each.buffer.data in self.touched:
                    return True
            elif isinstance(each, ir.Var) and each in self.touched:
                return True
        return False

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        if self._depends or self.depends(node):
            self._touch(node.buffer.data)

    def visit_evaluate(self, node: ir.Evaluate) -> None:
        if not self._depends and not self.depends(node):
            return
        for each in ir.walk(node):
            if isinstance(each, ir.BufferLoad):
                self._touch(each.buffer.data)
            elif isinstance(each, ir.Var):
                self._touch(each)

    def _touch(self, data: ir.Var) -> None:
        if data in self._owned:
            self.touched.add(data)

    def visit_let_stmt(self, node: ir.LetStmt) -> None:
        if self._depends or self.depends(node.value):
            self.touched.add(node.var)
        self.visit(node.body)

    def visit_for(self, node: ir.For) -> None:
        self._compound(node, self.depends(node.min) or self.depends(node.extent))

    def visit_if_then_else(self, node: ir.IfThenElse | ir.While) -> None:
        self._compound(node, self.depends(node.condition))

    visit_while = visit_if_then_else

    def _compound(self, node: ir.Stmt, depends: bool) -> None:
        self._depends += depends
        self.generic_visit(node)
        self._depends -= depends


class _Expander(ir.BufferRewriter):
    """Gives each virtual thread its own part of the memory that differs between them."""

    def __init__(self, thread: ir.Var, extent: ir.PrimExpr, touched: set[ir.Var]) -> None:
        self._thread = thread
        self._extent = extent
        self._touched = touched
        self._sizes: dict[ir.Var, ir.PrimExpr] = {}
        self._buffers: dict[ir.Buffer, ir.Buffer] = {}

    def visit_allocate(self, node: ir.Allocate) -> Any:
        if node.buffer_var not in self._touched:
            return ir.map_children(node, self.visit)
        size = self._sizes[node.buffer_var] = node.extents[0]
        body = self.visit(node.body)
        return ir.replace(node, extents=(ir.multiply(size, self._extent),), body=body)

    def visit_buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        size = self._sizes.get(buffer.data)
        if size is None:
            return buffer
        if buffer not in self._buffers:
            shape = (ir.multiply(size, self._extent),)
            self._buffers[buffer] = ir.replace(buffer, shape=shape)
        return self._buffers[buffer]

    def with_buffer(self, node: Any) -> Any:
        buffer = self.visit_buffer(node.buffer)
        if buffer is node.buffer:
            return node
        return ir.replace(node, buffer=buffer, indices=(self._moved(node, *node.indices),))

    def _moved(self, node: Any, index: ir.PrimExpr) -> ir.PrimExpr:
        offset = self._offset(node.buffer.data, index.dtype.element_of)
        if isinstance(index, ir.Ramp):
            return ir.Ramp(offset + index.base, index.stride, index.lanes)
        lanes = index.dtype.lanes
        return (ir.Broadcast(offset, lanes) if lanes > 1 else offset) + index

    def _offset(self, data: ir.Var, dtype: ir.DType) -> ir.PrimExpr:
        return ir.cast(dtype, self._thread * self._sizes[data])

    def visit_call(self, node: ir.Call) -> Any:
        if node.op is not _ACCESS_PTR or node.args[1] not in self._sizes:
            return ir.map_children(node, self.visit)
        kind, data, start, extent, mask = node.args
        assert isinstance(data, ir.Var)
        start = self._offset(data, start.dtype) + self.visit(start)
        return ir.replace(node, args=(kind, data, start, self.visit(extent), mask))

    def visit_var(self, node: ir.Var) -> ir.Var:
        if node in self._sizes:
            raise LowerError(
                f"each virtual thread has its own {node.name}, but a call takes the address of all "
                "of it; unroll that loop instead of binding it to a virtual thread"
            )
        return node


def _repeated(body: ir.Stmt, thread: ir.Var, extent: ir.PrimExpr, touched: set[ir.Var]) -> ir.Stmt:
    """Loops over a virtual thread around the statements that depend on it."""

    def by_parts(node: ir.Stmt, *parts: ir.Node) -> ir.Stmt | None:
        """The statement for each virtual thread, if one of these parts depends on it."""
        if not any(ir.uses_var(part, touched.__contains__) for part in parts):
            return None
        own = ir.replace(thread)
        each = FoldingSubstituter({thread: own}, fresh_binders=True).rewrite(node)
        return ir.For(own, ir.const(0, own.dtype), extent, ir.ForKind.UNROLLED, each)

    return ir.rewrite(
        body,
        before={
            (ir.BufferStore, ir.Evaluate, ir.While): lambda node: by_parts(node, node) or node,
            ir.For: lambda node: by_parts(node, node.min, node.extent),
            ir.IfThenElse: lambda node: by_parts(node, node.condition),
            ir.LetStmt: lambda node: by_parts(node, node.value),
        },
    )


def _one_by_one(node: ir.AttrStmt) -> ir.Stmt:
    if node.attr_key != VIRTUAL_THREAD or not isinstance(node.node, ir.IterVar):
        return node
    thread, body = node.node.var, node.body
    if ir.is_one(node.value):
        return FoldingSubstituter({thread: ir.const(0, thread.dtype)}).rewrite(body)
    touched = _Touched(thread, body).touched
    body = _Expander(thread, node.value, touched).rewrite(body)
    return _repeated(body, thread, node.value, touched)


@function_pass
def InjectVirtualThread(func: ir.PrimFunc) -> ir.PrimFunc:
    """Let each thread do the work of its virtual threads."""
    return ir.rewrite(func, {ir.AttrStmt: _one_by_one})
