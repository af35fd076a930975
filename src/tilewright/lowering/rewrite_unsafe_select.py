"""A `Select` with a part that might fault becomes `if_then_else`, which evaluates what it chose."""

from __future__ import annotations

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
    Node,
    PrimExpr,
    PrimFunc,
    Select,
    children,
)
from tilewright.ir.patterns import rewrite
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import IF_THEN_ELSE
from tilewright.lowering.widen_expr import is_inside


def may_divide_by_zero(node: BinaryOp) -> bool:
    """True for a division of integers by anything but a constant other than zero."""
    if not isinstance(node, (Div, Mod, FloorDiv, FloorMod)) or node.dtype.is_float:
        return False
    divisor = node.b.value if isinstance(node.b, Broadcast) else node.b
    return not (isinstance(divisor, IntImm) and divisor.value != 0)


def _is_unsafe(node: Node, guards_loads: bool) -> bool:
    """Is there a load that may lie outside the buffer, or a division that may fault?"""
    match node:
        case Call(op=op, args=args) if op is IF_THEN_ELSE:
            return _is_unsafe(args[0], guards_loads)  # which protects the branches
        case BufferLoad() if guards_loads and node.predicate is None:
            if not is_inside(node.buffer, node.indices):
                return True
        case BinaryOp() if may_divide_by_zero(node):
            return True
    return any(_is_unsafe(child, guards_loads) for child in children(node))


def _protected(node: Select) -> PrimExpr:
    is_scalar = node.condition.dtype.lanes == 1  # lanes have masks of their own for loads
    if not any(_is_unsafe(value, is_scalar) for value in (node.true_value, node.false_value)):
        return node
    args = (node.condition, node.true_value, node.false_value)
    return Call(node.dtype, IF_THEN_ELSE, args)


@function_pass
def RewriteUnsafeSelect(func: PrimFunc) -> PrimFunc:
    """Protect loads and divisions in the branches of selections."""
    return func.with_body(rewrite(func.body, {Select: _protected}))
