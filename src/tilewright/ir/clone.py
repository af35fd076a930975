"""Copies of IR that share no definition with the original."""

from __future__ import annotations

from typing import Any

from tilewright.ir import nodes as ir
from tilewright.ir.function import PrimFunc
from tilewright.ir.node import map_children, replace
from tilewright.ir.visit import BufferRewriter, map_buffer


class Cloner(BufferRewriter):
    """Gives everything that a statement defines a new identity.

    `index_dtype` is the type of new loop variables, iterators, offsets and strides that were int32.
    """

    def __init__(self, index_dtype: ir.DType = ir.INT32) -> None:
        self._index_dtype = index_dtype
        self._vars: dict[ir.Var, ir.PrimExpr] = {}
        self._buffers: dict[ir.Buffer, ir.Buffer] = {}

    def define_buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        """A new buffer, with new variables for those of its shape, strides and offset."""
        self._define(buffer.data)
        for expr in buffer.layout:
            if isinstance(expr, ir.Var) and expr not in self._vars:
                self._define(expr)
        made = replace(self._with_new_vars(buffer), name=buffer.name)
        self._buffers[buffer] = made
        return made

    def _define(self, var: ir.Var) -> ir.Var:
        dtype = self._index_dtype if var.dtype is ir.INT32 else var.dtype
        made = replace(var, dtype=dtype)
        self._vars[var] = made
        return made

    def visit_var(self, node: ir.Var) -> ir.PrimExpr:
        return self._vars.get(node, node)

    def visit_binary_op(self, node: ir.BinaryOp) -> Any:
        """Both sides keep one type when one of them grew wider."""
        result = map_children(node, self.visit)
        if result is node or result.a.dtype == result.b.dtype:
            return result
        return replace(result, a=self._widened(result.a), b=self._widened(result.b))

    def _widened(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        return ir.cast(self._index_dtype, expr) if expr.dtype is ir.INT32 else expr

    def visit_buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        known = self._buffers.get(buffer)
        if known is None:
            known = self._buffers[buffer] = self._with_new_vars(buffer)
        return known

    def _with_new_vars(self, buffer: ir.Buffer) -> ir.Buffer:
        return map_buffer(buffer, self.visit)

    def visit_for(self, node: ir.For) -> ir.Stmt:
        var = self._define(node.loop_var)
        changed = map_children(node, self.visit)
        return replace(
            changed,
            loop_var=var,
            min=_with_dtype(changed.min, var.dtype),
            extent=_with_dtype(changed.extent, var.dtype),
        )

    def visit_iter_var(self, node: ir.IterVar) -> ir.IterVar:
        var = self._vars.get(node.var)
        if var is None:
            var = self._define(node.var)
        domain = node.dom
        if domain is not None:
            domain = replace(
                domain,
                min=_with_dtype(self.visit(domain.min), var.dtype),
                extent=_with_dtype(self.visit(domain.extent), var.dtype),
            )
        return replace(node, var=var, dom=domain)

    def visit_let(self, node: ir.LetStmt | ir.Let) -> Any:
        value = self.visit(node.value)
        var = self._vars[node.var] = replace(node.var, dtype=value.dtype)
        return replace(node, var=var, value=value, body=self.visit(node.body))

    visit_let_stmt = visit_let

    def visit_allocate(self, node: ir.Allocate | ir.AllocateConst) -> Any:
        var = self._define(node.buffer_var)
        return replace(map_children(node, self.visit), buffer_var=var)

    visit_allocate_const = visit_allocate

    def visit_decl_buffer(self, node: ir.DeclBuffer) -> Any:
        self._buffers[node.buffer] = replace(self._with_new_vars(node.buffer))
        return super().visit_decl_buffer(node)

    def visit_attr_stmt(self, node: ir.AttrStmt) -> Any:
        target = self.visit(node.node) if isinstance(node.node, (ir.Var, ir.IterVar)) else node.node
        return replace(map_children(node, self.visit), node=target)

    def visit_block(self, node: ir.Block) -> Any:
        for iter_var in node.iter_vars:
            self._define(iter_var.var)
        for buffer in (*node.alloc_buffers, *(match.buffer for match in node.match_buffers)):
            self.define_buffer(buffer)
        return super().visit_block(node)


def renew_defs(func: PrimFunc) -> PrimFunc:
    """A copy of a function that shares no variable and no buffer with it."""
    cloner = Cloner()
    params = tuple(cloner._define(param) for param in func.params)
    buffers = [cloner.define_buffer(buffer) for buffer in func.buffer_map.values()]
    owners = [cloner.visit(param) for param in func.buffer_map]
    buffer_map = dict(zip(owners, buffers, strict=True))
    return replace(func, params=params, buffer_map=buffer_map, body=cloner.rewrite(func.body))


def _with_dtype(expr: ir.PrimExpr, dtype: ir.DType) -> ir.PrimExpr:
    return expr if expr.dtype is dtype else ir.cast(dtype, expr)
