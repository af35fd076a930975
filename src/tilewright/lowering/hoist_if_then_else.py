"""An `if` that is the whole body of a loop, and does not depend on it, moves outside."""

from __future__ import annotations

from tilewright.ir import (
    BufferLoad,
    Call,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    replace,
)
from tilewright.ir.patterns import walk
from tilewright.lowering.base import function_pass
from tilewright.lowering.remove_no_op import has_effect
from tilewright.lowering.rewriters import StmtRewriter


class _Hoister(StmtRewriter):
    def visit_for(self, node: For) -> Stmt:
        node = self.generic_visit(node)
        inner = node.body
        if not isinstance(inner, IfThenElse) or inner.else_case is not None:
            return node
        condition = inner.condition
        if isinstance(condition, Call) and has_effect(condition):
            return node
        # Memory that the condition reads might be changed by the loop.
        if any(part is node.loop_var or isinstance(part, BufferLoad) for part in walk(condition)):
            return node
        return IfThenElse(condition, replace(node, body=inner.then_case))


@function_pass
def HoistIfThenElse(func: PrimFunc) -> PrimFunc:
    """Test conditions outside the loops that do not change them."""
    return func.with_body(_Hoister().rewrite(func.body))
