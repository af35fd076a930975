"""Rewriters and visitors that know, at every place, what holds there.

Loop variables are bound to their ranges and conditions are assumed inside the branches they guard,
so that a pass only has to ask `self.analyzer`.
"""

from __future__ import annotations

from typing import Any

from tilewright import ir
from tilewright.arith import POS_INF, Analyzer, ConstIntBound
from tilewright.ir.node import NodeT
from tilewright.lowering.rewriters import FoldingRewriter

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

    def under(self, condition: ir.PrimExpr, node: NodeT, holds: bool = True) -> NodeT:
        with self.analyzer.constraint_scope(condition if holds else ir.logical_not(condition)):
            return self.rewrite(node)

    def visit_assert_stmt(self, node: ir.AssertStmt) -> ir.Stmt:
        condition = self.visit(node.condition)
        return ir.updated(node, condition=condition, body=self.under(condition, node.body))

    def visit_block_realize(self, node: ir.BlockRealize) -> ir.Stmt:
        predicate = self.visit(node.predicate)
        return ir.updated(node, predicate=predicate, block=self.under(predicate, node.block))

    def visit_let(self, node: Any) -> Any:
        value = self.visit(node.value)
        # Bounds of the variable are remembered, not its value: the let should stay.
        if value.dtype.is_integral and value.dtype.lanes == 1:
            self.analyzer.update(node.var, self.analyzer.const_int_bound(value), override=True)
        return ir.updated(node, value=value, body=self.visit(node.body))

    visit_let_stmt = visit_let
