"""Index arithmetic and conditions in their simplest form, branches that cannot run removed."""

from __future__ import annotations

from tilewright import ir
from tilewright.ir.intrinsics import likely
from tilewright.lowering.analyzing_rewriter import AnalyzingRewriter
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import LIKELY, FoldingSubstituter


class _Simplifier(AnalyzingRewriter):
    def visit_binary_op(self, node: ir.BinaryOp) -> ir.PrimExpr:
        kind = node.dtype
        if kind.lanes == 1 and (kind.is_bool or kind.is_int):
            return self._simplified(ir.map_children(node, self._visit_opaque))
        return self.folded(node)

    def _simplified(self, node: ir.PrimExpr) -> ir.PrimExpr:
        simple = self.analyzer.simplify(node)
        return node if _same_form(node, simple) else simple

    def _visit_opaque(self, node: ir.Node) -> ir.Node:
        """Simplify inside what the analyzer takes as it is: loads, calls and other types."""
        if isinstance(node, (ir.Var, ir.IntImm)):
            return node
        if (
            isinstance(node, (ir.BinaryOp, ir.Not))
            and node.dtype.lanes == 1
            and not node.a.dtype.is_float
        ):
            return ir.map_children(node, self._visit_opaque)
        return self.rewrite(node)

    def visit_not(self, node: ir.Not) -> ir.PrimExpr:
        return self._simplified(node)

    def visit_var(self, node: ir.Var) -> ir.PrimExpr:
        return self._simplified(node) if node.dtype.is_int else node

    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        if node.op is LIKELY:
            inner = self.visit(node.args[0])
            return node if inner is node.args[0] else likely(inner)
        return super().visit_call(node)

    def visit_for(self, node: ir.For) -> ir.Stmt:
        start, extent = self.visit(node.min), self.visit(node.extent)
        if not ir.is_one(extent) or node.annotations or node.kind == ir.ForKind.THREAD_BINDING:
            return super().visit_for(node)
        self.analyzer.bind(node.loop_var, ir.Range(start, extent), allow_override=True)
        return self.rewrite(FoldingSubstituter({node.loop_var: start}).rewrite(node.body))

    def visit_let_stmt(self, node: ir.LetStmt) -> ir.Stmt:
        value = self.visit(node.value)
        if isinstance(value, (ir.IntImm, ir.Var)) and not value.dtype.is_handle:
            return self.rewrite(FoldingSubstituter({node.var: value}).rewrite(node.body))
        kept: ir.Stmt = super().visit_let_stmt(node)
        return kept


def _same_form(a: ir.PrimExpr, b: ir.PrimExpr) -> bool:
    """True when simplifying only made a copy; then the original is kept."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, ir.BinaryOp) and isinstance(b, ir.BinaryOp):
        return _same_form(a.a, b.a) and _same_form(a.b, b.b)
    if isinstance(a, ir.IntImm) and isinstance(b, ir.IntImm):
        return a.value == b.value and a.dtype is b.dtype
    return False


@function_pass
def Simplify(func: ir.PrimFunc) -> ir.PrimFunc:
    """Simplify index arithmetic and conditions with what is known at each place."""
    return func.with_body(_Simplifier(func).rewrite(func.body))
