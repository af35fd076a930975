"""Rewriters, and questions about expressions, that several passes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright import ir
from tilewright.ir.arithmetic import fold_binary
from tilewright.ir.visit import Substituter

IF_THEN_ELSE = ir.Op.get("tir.if_then_else")
LIKELY = ir.Op.get("tir.likely")
ADDRESS_OF = ir.Op.get("tir.address_of")


def takes_pointer(node: ir.Node, data: ir.Var) -> bool:
    """True when the pointer to some memory is used other than to load and store elements."""
    if isinstance(node, ir.Call) and node.op is ADDRESS_OF:
        load = node.args[0]
        return isinstance(load, ir.BufferLoad) and load.buffer.data is data
    return node is data or any(takes_pointer(child, data) for child in ir.children(node))


def thread_tag(node: ir.For | ir.Block) -> str:
    """The thread axis that a loop is bound to; empty for all others, and for blocks."""
    binding = node.thread_binding if isinstance(node, ir.For) else None
    return "" if binding is None else binding.thread_tag


def is_element(expr: ir.PrimExpr, store: ir.BufferStore) -> bool:
    """True for a load of the element that a store writes."""
    return (
        isinstance(expr, ir.BufferLoad)
        and expr.buffer.data is store.buffer.data
        and all(map(ir.expr_deep_equal, expr.indices, store.indices))
    )


def with_lets(bindings: Sequence[tuple[ir.Var, ir.PrimExpr]], body: ir.Stmt) -> ir.Stmt:
    """`body` inside of `let` statements, the first binding outermost."""
    for var, value in reversed(bindings):
        body = ir.LetStmt(var, value, body)
    return body


class StmtRewriter(ir.Rewriter):
    """Rewrites statements only; expressions and regions are left as they are."""

    def _keep(self, node: Any) -> Any:
        return node

    visit_prim_expr = _keep
    visit_iter_var = _keep
    visit_range = _keep
    visit_buffer_region = _keep
    visit_match_buffer_region = _keep


def is_false(condition: ir.PrimExpr) -> bool:
    return type(condition) is ir.IntImm and condition.value == 0


def crosses_rows(buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> bool:
    """True for an access of consecutive elements that goes on in the next row of a buffer."""
    last = indices[-1] if len(indices) > 1 and not buffer.strides else None
    extent = buffer.shape[-1] if last is not None else None
    if not isinstance(last, ir.Ramp) or not isinstance(extent, ir.IntImm):
        return False
    return (
        last.lanes > extent.value and isinstance(last.stride, ir.IntImm) and last.stride.value == 1
    )


class FoldingRewriter(ir.Rewriter):
    """Keeps constants as they are, and sequences free of statements that do nothing any more."""

    def visit_int_imm(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    visit_float_imm = visit_int_imm

    def visit_seq_stmt(self, node: ir.SeqStmt) -> ir.Stmt:
        statements = ir.map_tuple(node.seq, self.visit)
        return node if statements is node.seq else ir.seq(statements)


class FoldingSubstituter(FoldingRewriter, Substituter):
    """Replaces variables by expressions, and folds the constants that this uncovers.

    `bindings` may grow while the walk goes on. With `fresh_binders` every loop, let and allocation
    below gets variables of its own, so that the result may stand beside the original.
    """

    def __init__(self, bindings: Mapping[ir.Var, ir.PrimExpr], fresh_binders: bool = False) -> None:
        self.bindings: dict[ir.Var, ir.PrimExpr] = dict(bindings)
        self._fresh_binders = fresh_binders
        super().__init__(self.bindings.get)

    def visit_binary_op(self, node: ir.BinaryOp) -> ir.PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        return fold_binary(type(node), a, b)

    def visit_not(self, node: ir.Not) -> ir.PrimExpr:
        a = self.visit(node.a)
        return node if a is node.a else ir.logical_not(a)

    def visit_select(self, node: ir.Select) -> ir.PrimExpr:
        node = ir.map_children(node, self.visit)
        if isinstance(node.condition, ir.IntImm):
            return node.true_value if node.condition.value else node.false_value
        return node

    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        node = ir.map_children(node, self.visit)
        if node.op is IF_THEN_ELSE and isinstance(node.args[0], ir.IntImm):
            return node.args[1] if node.args[0].value else node.args[2]
        if node.op is LIKELY and isinstance(node.args[0], ir.IntImm):
            return node.args[0]
        return node

    def visit_if_then_else(self, node: ir.IfThenElse) -> ir.Stmt:
        condition = self.visit(node.condition)
        if isinstance(condition, ir.IntImm):
            chosen = node.then_case if condition.value else node.else_case
            return ir.no_op() if chosen is None else self.visit(chosen)
        then_case = self.visit(node.then_case)
        else_case = None if node.else_case is None else self.visit(node.else_case)
        return ir.updated(node, condition=condition, then_case=then_case, else_case=else_case)

    def _rebind(self, var: ir.Var) -> ir.Var:
        """The variable that a binder below introduces."""
        if not self._fresh_binders:
            return var
        fresh = ir.replace(var)
        self.bindings[var] = fresh
        return fresh

    def visit_for(self, node: ir.For) -> ir.Stmt:
        loop_var = self._rebind(node.loop_var)
        return ir.updated(ir.map_children(node, self.visit), loop_var=loop_var)

    def visit_let(self, node: Any) -> Any:
        value, var = self.visit(node.value), self._rebind(node.var)
        return ir.updated(node, var=var, value=value, body=self.visit(node.body))

    visit_let_stmt = visit_let

    def visit_allocate(self, node: ir.Allocate | ir.AllocateConst) -> ir.Stmt:
        self._rebind(node.buffer_var)
        return super().visit_allocate(node)

    visit_allocate_const = visit_allocate
