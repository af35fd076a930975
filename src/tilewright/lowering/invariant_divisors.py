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


def _unmarked(loop: ir.For) -> ir.For:
    notes = {key: note for key, note in loop.annotations.items() if key != INVARIANT_DIVISORS}
    return loop if len(notes) == len(loop.annotations) else ir.replace(loop, annotations=notes)


def _with_reciprocals(loop: ir.For) -> ir.For | None:
    """A marked loop without the quotients by what stays the same in it."""
    mark = loop.annotations.get(INVARIANT_DIVISORS, 0)
    if not getattr(mark, "value", mark):
        return None
    stored = {store.buffer for store in ir.nodes_of(loop, ir.BufferStore)}
    changing = {each.loop_var for each in ir.nodes_of(loop, ir.For)}

    def product(node: ir.Div) -> ir.PrimExpr:
        loads = ir.nodes_of(node.b, ir.BufferLoad)
        changes = any(load.buffer in stored for load in loads)
        if not node.dtype.is_float or changes or ir.uses_var(node.b, changing.__contains__):
            return node
        return ir.multiply(node.a, ir.divide(ir.const(1.0, node.dtype), node.b))

    return ir.rewrite(loop, {ir.Div: product, ir.For: _unmarked})


@function_pass
def InvariantDivisors(func: ir.PrimFunc) -> ir.PrimFunc:
    """Multiply by reciprocals, where the schedule allows it."""
    return ir.rewrite(func, {ir.For: _unmarked}, before={ir.For: _with_reciprocals})
