"""An `if` that is the whole body of a loop, and does not depend on it, moves outside."""

from __future__ import annotations

from tilewright import ir
from tilewright.lowering.base import function_pass
from tilewright.lowering.remove_no_op import has_effect


def _hoisted(node: ir.For) -> ir.Stmt:
    inner = node.body
    if not isinstance(inner, ir.IfThenElse) or inner.else_case is not None:
        return node
    condition = inner.condition
    if isinstance(condition, ir.Call) and has_effect(condition):
        return node
    # Memory that the condition reads might be changed by the loop.
    if any(part is node.loop_var or isinstance(part, ir.BufferLoad) for part in ir.walk(condition)):
        return node
    return ir.IfThenElse(condition, ir.replace(node, body=inner.then_case))


@function_pass
def HoistIfThenElse(func: ir.PrimFunc) -> ir.PrimFunc:
    """Test conditions outside the loops that do not change them."""
    return ir.rewrite(func, {ir.For: _hoisted})
