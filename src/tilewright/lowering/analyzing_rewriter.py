"""Rewriters and visitors that know, at every place, what holds there.

Loop variables are bound to their ranges and conditions are assumed inside the branches they guard,
so that a pass only has to ask `self.analyzer`.
"""

from __future__ import annotations

from typing import Any

from tilewright.arith import POS_INF, Analyzer, ConstIntBound
from tilewright.ir import (
    AssertStmt,
    BlockRealize,
    Call,
    For,
    IfThenElse,
    IntImm,
    PrimExpr,
    PrimFunc,
    Range,
    Rewriter,
    Select,
    SeqStmt,
    Var,
    logical_not,
    map_children,
    map_tuple,
    no_op,
    replace,
    seq,
    updated,
)
from tilewright.lowering.rewriters import IF_THEN_ELSE


class AnalyzingRewriter(Rewriter):
    """A rewriter with an analyzer that is told about loops, lets and conditions on the way."""

    def __init__(self, func: PrimFunc | None = None) -> None:
        self.analyzer = Analyzer()
        if func is not None:
            self._assume_sizes(func)

    def _assume_sizes(self, func: PrimFunc) -> None:
        """Symbolic extents of buffers are not negative."""
        for buffer in func.buffer_map.values():
            for extent in buffer.shape:
                if isinstance(extent, Var):
                    self.analyzer.update(extent, ConstIntBound(0, POS_INF))

    def visit_int_imm(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_float_imm(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_seq_stmt(self, node: SeqStmt) -> Any:
        statements = map_tuple(node.seq, self.visit)
        return node if statements is node.seq else seq(statements)

    def visit_for(self, node: For) -> Any:
        start, extent = self.visit(node.min), self.visit(node.extent)
        self.analyzer.bind(node.loop_var, Range(start, extent), allow_override=True)
        return updated(node, min=start, extent=extent, body=self.visit(node.body))

    def _under(self, condition: PrimExpr, node: Any) -> Any:
        with self.analyzer.constraint_scope(condition):
            return self.visit(node)

    def visit_if_then_else(self, node: IfThenElse) -> Any:
        condition = self.visit(node.condition)
        if isinstance(condition, IntImm):
            chosen = node.then_case if condition.value else node.else_case
            return no_op() if chosen is None else self.visit(chosen)
        then_case = self._under(condition, node.then_case)
        else_case = node.else_case
        if else_case is not None:
            else_case = self._under(logical_not(condition), else_case)
        return updated(node, condition=condition, then_case=then_case, else_case=else_case)

    def visit_call(self, node: Call) -> Any:
        if node.op is not IF_THEN_ELSE or node.args[0].dtype.lanes > 1:
            return map_children(node, self.visit)
        condition = self.visit(node.args[0])
        if isinstance(condition, IntImm):
            return self.visit(node.args[1] if condition.value else node.args[2])
        then_value = self._under(condition, node.args[1])
        else_value = self._under(logical_not(condition), node.args[2])
        args = (condition, then_value, else_value)
        same = all(new is old for new, old in zip(args, node.args, strict=True))
        return node if same else replace(node, args=args)

    def visit_select(self, node: Select) -> Any:
        condition = self.visit(node.condition)
        if isinstance(condition, IntImm):
            return self.visit(node.true_value if condition.value else node.false_value)
        # Both values are evaluated whatever the condition is, so nothing is assumed inside them.
        return map_children(updated(node, condition=condition), self.visit)

    def visit_assert_stmt(self, node: AssertStmt) -> Any:
        condition = self.visit(node.condition)
        return updated(node, condition=condition, body=self._under(condition, node.body))

    def visit_block_realize(self, node: BlockRealize) -> Any:
        predicate = self.visit(node.predicate)
        return updated(node, predicate=predicate, block=self._under(predicate, node.block))

    def visit_let(self, node: Any) -> Any:
        value = self.visit(node.value)
        # Bounds of the variable are remembered, not its value: the let should stay.
        if value.dtype.is_integral and value.dtype.lanes == 1:
            self.analyzer.update(node.var, self.analyzer.const_int_bound(value), override=True)
        return updated(node, value=value, body=self.visit(node.body))

    visit_let_stmt = visit_let
