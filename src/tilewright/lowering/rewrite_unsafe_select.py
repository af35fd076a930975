"""A `Select` with a part that might fault becomes `if_then_else`, which evaluates what it chose."""

from __future__ import annotations

from tilewright import ir
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import IF_THEN_ELSE
from tilewright.lowering.widen_expr import is_inside


def may_divide_by_zero(node: ir.BinaryOp) -> bool:
    """True for a division of integers by anything but a constant other than zero."""
    if not isinstance(node, (ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod)) or node.dtype.is_float:
        return False
    divisor = node.b.value if isinstance(node.b, ir.Broadcast) else node.b
    return not (isinstance(divisor, ir.IntImm) and divisor.value != 0)


def _is_unsafe(node: ir.Node, guards_loads: bool) -> bool:
    """True if a load may lie outside its buffer, or a division may fault."""
    match node:
        case ir.Call(op=op, args=args) if op is IF_THEN_ELSE:
            return _is_unsafe(args[0], guards_loads)  # which protects the branches
        case ir.BufferLoad() if guards_loads and node.predicate is None:
            if not is_inside(node.buffer, node.indices):
                return True
        case ir.BinaryOp() if may_divide_by_zero(node):
            return True
    return any(_is_unsafe(child, guards_loads) for child in ir.children(node))


def _protected(node: ir.Select) -> ir.PrimExpr:
    is_scalar = node.condition.dtype.lanes == 1  # lanes have masks of their own for loads
    if not any(_is_unsafe(value, is_scalar) for value in (node.true_value, node.false_value)):
        return node
    args = (node.condition, node.true_value, node.false_value)
    return ir.Call(node.dtype, IF_THEN_ELSE, args)


@function_pass
def RewriteUnsafeSelect(func: ir.PrimFunc) -> ir.PrimFunc:
    """Protect loads and divisions in the branches of selections."""
    return ir.rewrite(func, {ir.Select: _protected})
