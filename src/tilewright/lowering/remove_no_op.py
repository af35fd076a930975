"""Statements that do nothing vanish: empty loops and branches, unused lets and allocations."""

from __future__ import annotations

from tilewright.ir import (
    Allocate,
    AttrStmt,
    BufferLoad,
    BufferStore,
    Call,
    CallEffect,
    Evaluate,
    For,
    IfThenElse,
    IntImm,
    LetStmt,
    PrimExpr,
    PrimFunc,
    SeqStmt,
    Stmt,
    Var,
    Visitor,
    is_no_op,
    is_true,
    logical_not,
    map_tuple,
    no_op,
    replace,
    seq,
    updated,
)
from tilewright.ir.annotation_keys import AUTO_UNROLL_MAX_STEP, UNROLL_EXPLICIT_PRAGMA
from tilewright.ir.op import Op
from tilewright.ir.patterns import nodes_of
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import StmtRewriter, is_false


def has_effect(expr: PrimExpr) -> bool:
    """True when evaluating an expression does more than yield its value."""
    return any(
        not isinstance(call.op, Op) or call.op.effect > CallEffect.READ_STATE
        for call in nodes_of(expr, Call)
    )


class _NoOpRemover(StmtRewriter):
    def __init__(self, used: set[Var]) -> None:
        self._used = used

    def visit_seq_stmt(self, node: SeqStmt) -> Stmt:
        statements = map_tuple(node.seq, self.visit)
        if statements is node.seq and not any(map(is_no_op, statements)):
            return node
        return seq(statements)

    def visit_evaluate(self, node: Evaluate) -> Stmt:
        return node if is_no_op(node) or has_effect(node.value) else no_op()

    def visit_for(self, node: For) -> Stmt:
        if isinstance(node.extent, IntImm) and node.extent.value <= 0:
            return no_op()
        node = self.generic_visit(node)
        return node.body if is_no_op(node.body) else node

    def visit_if_then_else(self, node: IfThenElse) -> Stmt:
        if is_true(node.condition):
            return self.rewrite(node.then_case)
        if is_false(node.condition):
            return no_op() if node.else_case is None else self.rewrite(node.else_case)
        node = self.generic_visit(node)
        if node.else_case is not None and is_no_op(node.else_case):
            node = replace(node, else_case=None)
        if not is_no_op(node.then_case):
            return node
        if node.else_case is not None:
            return IfThenElse(logical_not(node.condition), node.else_case)
        return Evaluate(node.condition) if has_effect(node.condition) else no_op()

    def visit_let_stmt(self, node: LetStmt) -> Stmt:
        body = self.rewrite(node.body)
        if (node.var not in self._used or is_no_op(body)) and not has_effect(node.value):
            return body
        return updated(node, body=body)

    def visit_allocate(self, node: Allocate) -> Stmt:
        body = self.rewrite(node.body)
        unused = node.buffer_var not in self._used or is_no_op(body)
        return body if unused else updated(node, body=body)

    def visit_attr_stmt(self, node: AttrStmt) -> Stmt:
        body = self.rewrite(node.body)
        done = node.attr_key in (AUTO_UNROLL_MAX_STEP, UNROLL_EXPLICIT_PRAGMA)
        return body if done or is_no_op(body) else updated(node, body=body)


class _Uses(Visitor):
    """Variables that occur in expressions or behind buffers that are accessed."""

    def __init__(self, body: Stmt) -> None:
        self.found: set[Var] = set()
        self.visit(body)

    def visit_var(self, node: Var) -> None:
        self.found.add(node)

    def visit_int_imm(self, node: IntImm) -> None:
        """Nothing inside."""

    def visit_buffer_load(self, node: BufferLoad | BufferStore) -> None:
        self.found.add(node.buffer.data)
        self.generic_visit(node)

    visit_buffer_store = visit_buffer_load


@function_pass
def RemoveNoOp(func: PrimFunc) -> PrimFunc:
    """Remove statements without an effect."""
    return func.with_body(_NoOpRemover(_Uses(func.body).found).rewrite(func.body))
