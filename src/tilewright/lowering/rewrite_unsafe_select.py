"""A `Select` with a part that might fault becomes `if_then_else`, which evaluates what it chose."""

from __future__ import annotations

from typing import Any

from tilewright.ir import (
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    PrimExpr,
    PrimFunc,
    Rewriter,
    Select,
    Visitor,
    map_children,
)
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import IF_THEN_ELSE
from tilewright.lowering.widen_expr import is_inside


def may_divide_by_zero(node: BinaryOp) -> bool:
    """True for a division of integers by anything but a constant other than zero."""
    if not isinstance(node, (Div, Mod, FloorDiv, FloorMod)) or node.dtype.is_float:
        return False
    divisor = node.b.value if isinstance(node.b, Broadcast) else node.b
    return not (isinstance(divisor, IntImm) and divisor.value != 0)


class _UnsafeFinder(Visitor):
    """Looks for loads that are not known to lie inside the buffer, and for unsafe divisions."""

    def __init__(self) -> None:
        self.loads = False
        self.divides = False

    def visit_buffer_load(self, node: BufferLoad) -> None:
        if node.predicate is None and not is_inside(node.buffer, node.indices):
            self.loads = True
        self.generic_visit(node)

    def visit_binary_op(self, node: BinaryOp) -> None:
        if may_divide_by_zero(node):
            self.divides = True
        self.generic_visit(node)

    def visit_call(self, node: Call) -> None:
        # The branches of if_then_else are protected by its condition.
        for arg in node.args[:1] if node.op is IF_THEN_ELSE else node.args:
            self.visit(arg)


class _SelectRewriter(Rewriter):
    def visit_int_imm(self, node: Any) -> Any:
        return node

    def visit_select(self, node: Select) -> PrimExpr:
        node = map_children(node, self.visit)
        finder = _UnsafeFinder()
        finder.visit(node.true_value)
        finder.visit(node.false_value)
        is_scalar = node.condition.dtype.lanes == 1  # lanes have masks of their own for loads
        if not (finder.divides or (finder.loads and is_scalar)):
            return node
        args = (node.condition, node.true_value, node.false_value)
        return Call(node.dtype, IF_THEN_ELSE, args)


@function_pass
def RewriteUnsafeSelect(func: PrimFunc) -> PrimFunc:
    """Protect loads and divisions in the branches of selections."""
    return func.with_body(_SelectRewriter().rewrite(func.body))
