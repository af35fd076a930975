"""Vectorised loops get a width that a thread can load and store at once.

That is 2 to 16 elements, at most 16 bytes in all, which lie next to each other and begin at a
multiple of their size, under conditions that hold for all or none of them. A loop that is longer
becomes several vectors, one without such a width is unrolled.
"""

from __future__ import annotations

from typing import Any

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.lowering.analyzing_rewriter import AnalyzingRewriter
from tilewright.lowering.base import function_pass
from tilewright.lowering.remove_no_op import has_effect
from tilewright.lowering.rewriters import IF_THEN_ELSE, FoldingSubstituter
from tilewright.lowering.unroll_loop import element_bytes

VECTOR_BYTES = 16
WIDTHS = (16, 8, 4, 2)
MOST_UNROLLED = 64


class _Lanes(ir.Visitor):
    """Whether a body can run for `width` consecutive values of a loop variable at once."""

    def __init__(self, loop: ir.For, width: int, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._width = width
        self._var = loop.loop_var
        dtype = loop.loop_var.dtype
        self._lane, self._piece = ir.Var("lane", dtype), ir.Var("piece", dtype)
        assert isinstance(loop.extent, ir.IntImm)
        zero = ir.const(0, dtype)
        analyzer.bind(self._lane, ir.Range(zero, ir.const(width, dtype)))
        count = ir.const(loop.extent.value // width, dtype)
        analyzer.bind(self._piece, ir.Range(zero, count))
        self._value = loop.min + self._piece * width + self._lane
        self.fit = True

    def _uses_lane(self, expr: ir.PrimExpr) -> bool:
        return ir.uses_var(expr, lambda var: var is self._var)

    def _of_lane(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        return self._analyzer.simplify(ir.substitute(expr, {self._var: self._value}))

    def visit_buffer_load(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        (index,) = node.indices
        if self._uses_lane(index):
            self.fit = self.fit and self._is_vector(node.buffer, index)
        elif isinstance(node, ir.BufferStore) or index.dtype.lanes > 1:
            self.fit = False
        if isinstance(node, ir.BufferStore):
            self.visit(node.value)

    visit_buffer_store = visit_buffer_load

    def _is_vector(self, buffer: ir.Buffer, index: ir.PrimExpr) -> bool:
        if ir.has_load(index) or index.dtype.lanes > 1 or buffer.dtype.lanes > 1:
            return False
        at = self._of_lane(index)
        first = self._analyzer.simplify(ir.substitute(at, {self._lane: ir.const(0, at.dtype)}))
        step = ir.cast(at.dtype, self._lane)
        is_dense = self._analyzer.can_prove_equal(at - first, step)
        return is_dense and self._analyzer.can_prove_equal(
            ir.floormod(first, self._width), ir.const(0, first.dtype)
        )

    def _condition(self, condition: ir.PrimExpr) -> None:
        if not self._uses_lane(condition):
            return
        decided = self._of_lane(condition)
        if ir.has_load(condition) or ir.uses_var(decided, lambda var: var is self._lane):
            self.fit = False

    def visit_if_then_else(self, node: ir.IfThenElse) -> None:
        self._condition(node.condition)
        for child in (node.then_case, node.else_case):
            if child is not None:
                self.visit(child)

    def visit_call(self, node: ir.Call) -> None:
        if node.op is IF_THEN_ELSE:
            self._condition(node.args[0])
            for value in node.args[1:]:
                self.visit(value)
            return
        self.fit = self.fit and not has_effect(node)
        self.generic_visit(node)

    def visit_var(self, node: ir.Var) -> None:
        """A value that differs from lane to lane, though it is not loaded."""
        self.fit = self.fit and node is not self._var

    def _no_vector(self, node: Any) -> None:
        self.fit = False

    visit_for = visit_while = visit_allocate = visit_let_stmt = _no_vector


class _Fitter(AnalyzingRewriter):
    def visit_for(self, node: ir.For) -> Any:
        if node.kind != ir.ForKind.VECTORIZED:
            return super().visit_for(node)
        extent = node.extent.value if isinstance(node.extent, ir.IntImm) else 0
        for width in WIDTHS:
            if extent % width == 0 and _bytes(node.body) * width <= VECTOR_BYTES:
                lanes = _Lanes(node, width, self.analyzer)
                lanes.visit(node.body)
                if lanes.fit:
                    return self._vectors(node, extent // width, width)
        kind = ir.ForKind.UNROLLED if 0 < extent <= MOST_UNROLLED else ir.ForKind.SERIAL
        return ir.replace(node, kind=kind)

    def _vectors(self, node: ir.For, count: int, width: int) -> ir.Stmt:
        """`count` vectors after one another, with conditions that no longer speak of lanes."""
        dtype = node.loop_var.dtype
        piece, lane = ir.Var(f"{node.loop_var.name}_piece", dtype), ir.replace(node.loop_var)
        zero, lanes = ir.const(0, dtype), ir.const(width, dtype)
        self.analyzer.bind(lane, ir.Range(zero, lanes))
        self.analyzer.bind(piece, ir.Range(zero, ir.const(count, dtype)))
        at = node.min + lane if count == 1 else node.min + piece * width + lane
        body = FoldingSubstituter({node.loop_var: at}).rewrite(node.body)
        body = _with_plain_conditions(body, self.analyzer)
        vector = ir.For(lane, zero, lanes, ir.ForKind.VECTORIZED, body)
        if count == 1:
            return vector
        kind = ir.ForKind.UNROLLED if count <= MOST_UNROLLED else ir.ForKind.SERIAL
        return ir.For(piece, zero, ir.const(count, dtype), kind, vector)


def _with_plain_conditions(body: ir.Stmt, analyzer: Analyzer) -> ir.Stmt:
    """Simplifies conditions, so that what is the same for all lanes is seen to be so."""

    def branch(node: ir.IfThenElse) -> ir.Stmt:
        return ir.updated(node, condition=analyzer.simplify(node.condition))

    def choice(node: ir.Call) -> ir.PrimExpr:
        if node.op is not IF_THEN_ELSE:
            return node
        return ir.replace(node, args=(analyzer.simplify(node.args[0]), *node.args[1:]))

    return ir.rewrite(body, {ir.IfThenElse: branch, ir.Call: choice})


def _bytes(body: ir.Stmt) -> int:
    """Of the widest element that is loaded or stored."""
    accesses = (node for node in ir.walk(body) if isinstance(node, ir.BufferLoad | ir.BufferStore))
    return max((element_bytes(node.buffer) for node in accesses), default=1)


@function_pass
def FitVectorLoops(func: ir.PrimFunc) -> ir.PrimFunc:
    """Cut vectorised loops to vectors that a GPU has."""
    return func.with_body(_Fitter(func).rewrite(func.body))
