"""Rewriters and visitors that know, at every place, what holds there.

Loop variables are bound to their ranges and conditions are assumed inside the branches they guard,
so that a pass only has to ask `self.analyzer`.
"""

from __future__ import annotations

from typing import Any

from tilewright import ir
from tilewright.arith import POS_INF, Analyzer, ConstIntBound
from tilewright.ir.node import NodeT
from tilewright.lowering.rewriters import IF_THEN_ELSE, FoldingRewriter

_LAUNCHES = ("thread_extent", "virtual_thread")  # attributes that bind variables to threads


class AnalyzingRewriter(FoldingRewriter):
    """A rewriter with an analyzer that is told about loops, lets and conditions on the way."""

    def __init__(self, func: ir.PrimFunc | None = None) -> None:
        self.analyzer = Analyzer()
        for buffer in () if func is None else func.buffer_map.values():
            for extent in buffer.shape:
                if isinstance(extent, ir.Var):  # symbolic extents of buffers are not negative
                    self.analyzer.update(extent, ConstIntBound(0, POS_INF))

    def visit_for(self, node: ir.For) -> ir.Stmt:
        start, extent = self.visit(node.min), self.visit(node.extent)
        self.analyzer.bind(node.loop_var, ir.Range(start, extent), allow_override=True)
        return ir.updated(node, min=start, extent=extent, body=self.visit(node.body))

    def visit_attr_stmt(self, node: ir.AttrStmt) -> ir.Stmt:
        if isinstance(node.node, ir.IterVar) and node.attr_key in _LAUNCHES:
            domain = ir.Range(ir.const(0, node.value.dtype), node.value)
            self.analyzer.bind(node.node.var, domain, allow_override=True)
        return ir.map_children(node, self.visit)

    def _under(self, condition: ir.PrimExpr, node: NodeT) -> NodeT:
        with self.analyzer.constraint_scope(condition):
            return self.rewrite(node)

    def visit_if_then_else(self, node: ir.IfThenElse) -> ir.Stmt:
        condition = self.visit(node.condition)
        if isinstance(condition, ir.IntImm):
            chosen = node.then_case if condition.value else node.else_case
            return ir.no_op() if chosen is None else self.rewrite(chosen)
        then_case = self._under(condition, node.then_case)
        else_case = node.else_case
        if else_case is not None:
            else_case = self._under(ir.logical_not(condition), else_case)
        return ir.updated(node, condition=condition, then_case=then_case, else_case=else_case)

    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        if node.op is not IF_THEN_ELSE or node.args[0].dtype.lanes > 1:
            return ir.map_children(node, self.visit)
        condition = self.visit(node.args[0])
        if isinstance(condition, ir.IntImm):
            return self.rewrite(node.args[1] if condition.value else node.args[2])
        then_value = self._under(condition, node.args[1])
        else_value = self._under(ir.logical_not(condition), node.args[2])
        args = (condition, then_value, else_value)
        same = all(new is old for new, old in zip(args, node.args, strict=True))
        return node if same else ir.replace(node, args=args)

    def visit_select(self, node: ir.Select) -> ir.PrimExpr:
        condition = self.visit(node.condition)
        if isinstance(condition, ir.IntImm):
            return self.rewrite(node.true_value if condition.value else node.false_value)
        # Both values are evaluated whatever the condition is, so nothing is assumed inside them.
        return ir.map_children(ir.updated(node, condition=condition), self.visit)

    def visit_assert_stmt(self, node: ir.AssertStmt) -> ir.Stmt:
        condition = self.visit(node.condition)
        return ir.updated(node, condition=condition, body=self._under(condition, node.body))

    def visit_block_realize(self, node: ir.BlockRealize) -> ir.Stmt:
        predicate = self.visit(node.predicate)
        return ir.updated(node, predicate=predicate, block=self._under(predicate, node.block))

    def visit_let(self, node: Any) -> Any:
        value = self.visit(node.value)
        # Bounds of the variable are remembered, not its value: the let should stay.
        if value.dtype.is_integral and value.dtype.lanes == 1:
            self.analyzer.update(node.var, self.analyzer.const_int_bound(value), override=True)
        return ir.updated(node, value=value, body=self.visit(node.body))

    visit_let_stmt = visit_let
