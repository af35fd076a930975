"""Quotients by what stays the same become products, below loops marked `invariant_divisors`.

A softmax divides every element of a row by the same sum. Vectors are divided several times more
slowly than they are multiplied, so one reciprocal serves the whole row. Each result is rounded once
more: it differs by one unit in the last place at most, unless the reciprocal is too small or too
large for its type. So a rule asks for it, never lowering by itself.
"""

from __future__ import annotations

from tilewright import ir
from tilewright.ir.annotation_keys import INVARIANT_DIVISORS
from tilewright.lowering.base import function_pass


class _Reciprocals(ir.Rewriter):
    """Rewrites the inside of marked loops."""

    def __init__(self) -> None:
        self._changing: list[ir.Var] = []  # the loops from the marked one on
        self._stored: set[ir.Buffer] = set()

    def visit_for(self, node: ir.For) -> ir.Stmt:
        notes = dict(node.annotations)
        mark = notes.pop(INVARIANT_DIVISORS, 0)
        if len(notes) < len(node.annotations):
            node = ir.replace(node, annotations=notes)
        if not self._changing and not getattr(mark, "value", mark):
            return self.generic_visit(node)
        if not self._changing:
            self._stored = {store.buffer for store in ir.nodes_of(node, ir.BufferStore)}
        self._changing.append(node.loop_var)
        made = self.generic_visit(node)
        self._changing.pop()
        return made

    def visit_div(self, node: ir.Div) -> ir.PrimExpr:
        made = self.generic_visit(node)
        if not self._changing or not made.dtype.is_float or not self._is_invariant(made.b):
            return made
        return ir.multiply(made.a, ir.divide(ir.const(1.0, made.dtype), made.b))

    def _is_invariant(self, divisor: ir.PrimExpr) -> bool:
        loads = ir.nodes_of(divisor, ir.BufferLoad)
        return not any(load.buffer in self._stored for load in loads) and not ir.uses_var(
            divisor, lambda var: any(var is own for own in self._changing)
        )


@function_pass
def InvariantDivisors(func: ir.PrimFunc) -> ir.PrimFunc:
    """Multiply by reciprocals, where the schedule allows it."""
    return func.with_body(_Reciprocals().visit(func.body))
