"""Statements that do nothing vanish: empty loops and branches, unused lets and allocations."""

from __future__ import annotations

from tilewright import ir
from tilewright.ir.annotation_keys import AUTO_UNROLL_MAX_STEP, UNROLL_EXPLICIT_PRAGMA
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import StmtRewriter


def has_effect(expr: ir.PrimExpr) -> bool:
    """True when evaluating an expression does more than yield its value."""
    return any(
        not isinstance(call.op, ir.Op) or call.op.effect > ir.CallEffect.READ_STATE
        for call in ir.nodes_of(expr, ir.Call)
    )


class _NoOpRemover(StmtRewriter):
    def __init__(self, used: set[ir.Var]) -> None:
        self._used = used

    def visit_seq_stmt(self, node: ir.SeqStmt) -> ir.Stmt:
        statements = ir.map_tuple(node.seq, self.visit)
        if statements is node.seq and not any(map(ir.is_no_op, statements)):
            return node
        return ir.seq(statements)

    def visit_evaluate(self, node: ir.Evaluate) -> ir.Stmt:
        return node if ir.is_no_op(node) or has_effect(node.value) else ir.no_op()

    def visit_for(self, node: ir.For) -> ir.Stmt:
        if isinstance(node.extent, ir.IntImm) and node.extent.value <= 0:
            return ir.no_op()
        node = self.generic_visit(node)
        return node.body if ir.is_no_op(node.body) else node

    def visit_if_then_else(self, node: ir.IfThenElse) -> ir.Stmt:
        if ir.is_true(node.condition):
            return self.rewrite(node.then_case)
        if ir.is_zero(node.condition):
            return ir.no_op() if node.else_case is None else self.rewrite(node.else_case)
        node = self.generic_visit(node)
        if node.else_case is not None and ir.is_no_op(node.else_case):
            node = ir.replace(node, else_case=None)
        if not ir.is_no_op(node.then_case):
            return node
        if node.else_case is not None:
            return ir.IfThenElse(ir.logical_not(node.condition), node.else_case)
        return ir.Evaluate(node.condition) if has_effect(node.condition) else ir.no_op()

    def visit_let_stmt(self, node: ir.LetStmt) -> ir.Stmt:
        body = self.rewrite(node.body)
        if (node.var not in self._used or ir.is_no_op(body)) and not has_effect(node.value):
            return body
        return ir.updated(node, body=body)

    def visit_allocate(self, node: ir.Allocate) -> ir.Stmt:
        body = self.rewrite(node.body)
        unused = node.buffer_var not in self._used or ir.is_no_op(body)
        return body if unused else ir.updated(node, body=body)

    def visit_attr_stmt(self, node: ir.AttrStmt) -> ir.Stmt:
        body = self.rewrite(node.body)
        done = node.attr_key in (AUTO_UNROLL_MAX_STEP, UNROLL_EXPLICIT_PRAGMA)
        return body if done or ir.is_no_op(body) else ir.updated(node, body=body)


@function_pass
def RemoveNoOp(func: ir.PrimFunc) -> ir.PrimFunc:
    """Remove statements without an effect."""
    nodes = list(ir.walk(func.body))
    used = {node for node in nodes if isinstance(node, ir.Var)}
    accesses = {ir.BufferLoad, ir.BufferStore}
    used |= {node.buffer.data for node in nodes if type(node) in accesses}
    return func.with_body(_NoOpRemover(used).rewrite(func.body))
