"""Rewriters, and questions about expressions, that several passes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Any

from tilewright import ir
from tilewright.ir.arithmetic import fold_binary
from tilewright.ir.node import NodeT
from tilewright.ir.stmt import flattened
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


def threads_share(tag: str, scope: str) -> bool:
    """True when threads of a block that differ along an axis use one copy of memory on the chip.

    Fragments of tensor instructions and `local` memory belong to a warp or to a thread.
    """
    if scope == "warp":
        return tag == "threadIdx.x"
    return scope.startswith("shared") and tag.startswith(("threadIdx", "vthread"))


def is_multiple(value: ir.PrimExpr, factor: int) -> bool:
    """True when `value` is certainly a multiple of `factor`, by its shape alone."""
    if factor == 1:
        return True
    match value:
        case ir.IntImm():
            return value.value % factor == 0
        case ir.Mul(a=a, b=ir.IntImm(value=scale)) | ir.Mul(a=ir.IntImm(value=scale), b=a):
            return is_multiple(a, factor // gcd(scale, factor))
        case ir.Mul():
            return is_multiple(value.a, factor) or is_multiple(value.b, factor)
        case ir.Add() | ir.Sub() | ir.Min() | ir.Max():
            return is_multiple(value.a, factor) and is_multiple(value.b, factor)
        case ir.FloorMod(a=a, b=ir.IntImm(value=modulus)):
            return modulus % factor == 0 and is_multiple(a, factor)
        case ir.FloorDiv(a=a, b=ir.IntImm(value=divisor)) if divisor > 0:
            return is_multiple(a, factor * divisor)
    return False


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

    def generic_visit(self, node: NodeT) -> NodeT:
        made = ir.map_statements(node, self.visit)
        if type(made) is ir.SeqStmt and made is not node:
            return flattened(made)  # type: ignore[arg-type, return-value] # a sequence, too
        return made


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
    """Keeps constants as they are, and sequences free of statements that do nothing any more.

    Of choices that are decided it leaves what was chosen.
    """

    def visit_int_imm(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    visit_float_imm = visit_int_imm

    def visit_seq_stmt(self, node: ir.SeqStmt) -> ir.Stmt:
        statements = ir.map_tuple(node.seq, self.visit)
        return node if statements is node.seq else ir.seq(statements)

    def folded(self, node: ir.BinaryOp) -> ir.PrimExpr:
        """An operator on rewritten operands, carried out if these are constants."""
        a, b = self.visit(node.a), self.visit(node.b)
        return node if a is node.a and b is node.b else fold_binary(type(node), a, b)

    def under(self, condition: ir.PrimExpr, node: NodeT, holds: bool = True) -> NodeT:
        """Rewrite what runs only where a condition holds, or does not."""
        return self.rewrite(node)

    def visit_if_then_else(self, node: ir.IfThenElse) -> ir.Stmt:
        condition = self.visit(node.condition)
        if isinstance(condition, ir.IntImm):
            chosen = node.then_case if condition.value else node.else_case
            return ir.no_op() if chosen is None else self.rewrite(chosen)
        then_case, else_case = self.under(condition, node.then_case), node.else_case
        if else_case is not None:
            else_case = self.under(condition, else_case, holds=False)
        return ir.updated(node, condition=condition, then_case=then_case, else_case=else_case)

    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        if node.op is not IF_THEN_ELSE or node.args[0].dtype.lanes > 1:
            return ir.map_children(node, self.visit)
        condition = self.visit(node.args[0])
        if isinstance(condition, ir.IntImm):
            return self.rewrite(node.args[1] if condition.value else node.args[2])
        then_value = self.under(condition, node.args[1])
        else_value = self.under(condition, node.args[2], holds=False)
        args = (condition, then_value, else_value)
        same = all(new is old for new, old in zip(args, node.args, strict=True))
        return node if same else ir.replace(node, args=args)

    def visit_select(self, node: ir.Select) -> ir.PrimExpr:
        condition = self.visit(node.condition)
        if isinstance(condition, ir.IntImm):
            return self.rewrite(node.true_value if condition.value else node.false_value)
        # Both values are evaluated whatever the condition is, so nothing is assumed inside them.
        values = self.visit(node.true_value), self.visit(node.false_value)
        return ir.updated(node, condition=condition, true_value=values[0], false_value=values[1])


class FoldingSubstituter(FoldingRewriter, Substituter):
    """Replaces variables by expressions, and folds the constants that this uncovers.

    `bindings` may grow while the walk goes on. With `fresh_binders` every loop, let and allocation
    below gets variables of its own, so that the result may stand beside the original.
    """

    def __init__(self, bindings: Mapping[ir.Var, ir.PrimExpr], fresh_binders: bool = False) -> None:
        self.bindings: dict[ir.Var, ir.PrimExpr] = dict(bindings)
        self._fresh_binders = fresh_binders
        super().__init__(self.bindings.get)

    visit_binary_op = FoldingRewriter.folded

    def visit_not(self, node: ir.Not) -> ir.PrimExpr:
        a = self.visit(node.a)
        return node if a is node.a else ir.logical_not(a)

    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        made = super().visit_call(node)
        if isinstance(made, ir.Call) and made.op is LIKELY and isinstance(made.args[0], ir.IntImm):
            return made.args[0]
        return made

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
