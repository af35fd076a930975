"""Evaluating an expression only in the lanes where a condition holds, unless it may be anywhere.

A vector `if_then_else` has no branch to hide behind. What its sides must not touch is switched off
instead: vector loads get the condition as a mask, vector divisors become 1 in the lanes that are
not wanted, and scalars are evaluated if any lane wants them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import ir
from tilewright.errors import CodegenError
from tilewright.lowering.rewrite_unsafe_select import may_divide_by_zero

_CHEAP_CALLS = frozenset(
    {
        "tir.bitwise_and", "tir.bitwise_not", "tir.bitwise_or", "tir.bitwise_xor", "tir.ceil",
        "tir.clz", "tir.copysign", "tir.fabs", "tir.floor", "tir.fma", "tir.if_then_else",
        "tir.isfinite", "tir.isinf", "tir.isnan", "tir.likely", "tir.nearbyint", "tir.popcount",
        "tir.reinterpret", "tir.round", "tir.shift_left", "tir.shift_right", "tir.sqrt",
        "tir.trunc", "tir.vectorcombine", "tir.vectorhigh", "tir.vectorlow",
    }
)  # fmt: skip

_DIVISIONS = (ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod)
_IF_THEN_ELSE = ir.Op.get("tir.if_then_else")


@dataclass(frozen=True)
class LaneMask:
    """A condition that has been computed: by lane, and whether any lane holds."""

    lanes: ir.Var
    any_lane: ir.Var


def can_speculate(expr: ir.Node) -> bool:
    """True when evaluating `expr` where it is not needed is cheap and cannot fault."""
    match expr:
        case ir.BufferLoad():
            return False
        case ir.BinaryOp():
            if may_divide_by_zero(expr):
                return False
        case ir.Call(op=op):
            if not (isinstance(op, ir.Op) and op.name in _CHEAP_CALLS):
                return False
    return all(map(can_speculate, ir.children(expr)))


def under_mask(mask: LaneMask, expr: ir.PrimExpr) -> ir.PrimExpr:
    """`expr`, harmless in the lanes where the mask does not hold."""
    return _UnderMask(mask).visit(expr)


class _UnderMask(ir.Rewriter):
    def __init__(self, mask: LaneMask) -> None:
        self._mask = mask

    def visit(self, node: ir.PrimExpr) -> ir.PrimExpr:
        if can_speculate(node):
            return node
        if node.dtype.lanes == 1:
            return self._if_any_lane(node)
        masked: ir.PrimExpr = super().visit(node)
        return masked

    def _if_any_lane(self, node: ir.PrimExpr) -> ir.PrimExpr:
        other = ir.const(0, node.dtype)
        return ir.Call(node.dtype, _IF_THEN_ELSE, (self._mask.any_lane, node, other))

    def visit_shuffle(self, node: ir.Shuffle) -> ir.PrimExpr:
        """Its lanes are not those of the mask."""
        return self._if_any_lane(node)

    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        mixes = not (isinstance(node.op, ir.Op) and node.op.vectorizable)
        return self._if_any_lane(node) if mixes else ir.map_children(node, self.visit)

    def visit_buffer_load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        node = ir.map_children(node, self.visit)
        mask: ir.PrimExpr = self._checked(node)
        return ir.replace(
            node, predicate=mask if node.predicate is None else ir.And(mask, node.predicate)
        )

    def visit_binary_op(self, node: ir.BinaryOp) -> ir.PrimExpr:
        node = ir.map_children(node, self.visit)
        if not isinstance(node, _DIVISIONS) or node.dtype.is_float:
            return node
        return ir.replace(node, b=ir.Select(self._checked(node), node.b, ir.const(1, node.b.dtype)))

    def _checked(self, node: ir.PrimExpr) -> ir.Var:
        lanes = self._mask.lanes.dtype.lanes
        if node.dtype.lanes != lanes:
            raise CodegenError(
                f"`{node}` has {node.dtype.lanes} lanes but is evaluated under a condition of "
                f"{lanes} lanes"
            )
        return self._mask.lanes
