"""An `if` that is the whole body of a loop, and does not depend on it, moves outside."""

from __future__ import annotations

from tilewright.ir import (
    BufferLoad,
    Call,
    For,
    IfThenElse,
    Node,
    PrimFunc,
    Stmt,
    Var,
    children,
    replace,
)
from tilewright.lowering.base import function_pass
from tilewright.lowering.remove_no_op import has_effect
from tilewright.lowering.rewriters import StmtRewriter


def _depends_on(node: Node, var: Var) -> bool:
    """True when a condition uses `var`, or memory that the loop might change."""
    if node is var or isinstance(node, BufferLoad):
        return True
    return any(_depends_on(child, var) for child in children(node))


class _Hoister(StmtRewriter):
    def visit_for(self, node: For) -> Stmt:
        node = self.generic_visit(node)
        inner = node.body
        if not isinstance(inner, IfThenElse) or inner.else_case is not None:
            return node
        condition = inner.condition
        if _depends_on(condition, node.loop_var) or _is_call(condition):
            return node
        return IfThenElse(condition, replace(node, body=inner.then_case))


def _is_call(condition: Node) -> bool:
    return isinstance(condition, Call) and has_effect(condition)


@function_pass
def HoistIfThenElse(func: PrimFunc) -> PrimFunc:
    """Test conditions outside the loops that do not change them."""
    return func.with_body(_Hoister().rewrite(func.body))
