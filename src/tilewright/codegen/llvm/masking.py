"""Evaluating an expression only in the lanes where a condition holds, unless it may be anywhere.

A vector `if_then_else` has no branch to hide behind. What its sides must not touch is switched off
instead: vector loads get the condition as a mask, vector divisors become 1 in the lanes that are
not wanted, and scalars are evaluated if any lane wants them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.errors import CodegenError
from tilewright.ir import (
    And,
    BinaryOp,
    BufferLoad,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    Mod,
    Node,
    Op,
    PrimExpr,
    Rewriter,
    Select,
    Shuffle,
    Var,
    children,
    const,
    map_children,
    replace,
)
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

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
_IF_THEN_ELSE = Op.get("tir.if_then_else")


@dataclass(frozen=True)
class LaneMask:
    """A condition that has been computed: by lane, and whether any lane holds."""

    lanes: Var
    any_lane: Var


def can_speculate(expr: Node) -> bool:
    """True when evaluating `expr` where it is not needed is cheap and cannot fault."""
    match expr:
        case BufferLoad():
            return False
        case BinaryOp():
            if may_divide_by_zero(expr):
                return False
        case Call(op=op):
            if not (isinstance(op, Op) and op.name in _CHEAP_CALLS):
                return False
    return all(map(can_speculate, children(expr)))


def under_mask(mask: LaneMask, expr: PrimExpr) -> PrimExpr:
    """`expr`, harmless in the lanes where the mask does not hold."""
    result: PrimExpr = _UnderMask(mask).visit(expr)
    return result


class _UnderMask(Rewriter):
    def __init__(self, mask: LaneMask) -> None:
        self._mask = mask

    def visit(self, node: Any) -> Any:
        if can_speculate(node):
            return node
        if node.dtype.lanes == 1:
            return self._if_any_lane(node)
        return super().visit(node)

    def _if_any_lane(self, node: PrimExpr) -> PrimExpr:
        other = const(0, node.dtype)
        return Call(node.dtype, _IF_THEN_ELSE, (self._mask.any_lane, node, other))

    def visit_shuffle(self, node: Shuffle) -> PrimExpr:
        """Its lanes are not those of the mask."""
        return self._if_any_lane(node)

    def visit_call(self, node: Call) -> PrimExpr:
        mixes = not (isinstance(node.op, Op) and node.op.vectorizable)
        return self._if_any_lane(node) if mixes else map_children(node, self.visit)

    def visit_buffer_load(self, node: BufferLoad) -> PrimExpr:
        node = map_children(node, self.visit)
        mask: PrimExpr = self._checked(node)
        return replace(
            node, predicate=mask if node.predicate is None else And(mask, node.predicate)
        )

    def visit_binary_op(self, node: BinaryOp) -> PrimExpr:
        node = map_children(node, self.visit)
        if not isinstance(node, _DIVISIONS) or node.dtype.is_float:
            return node
        return replace(node, b=Select(self._checked(node), node.b, const(1, node.b.dtype)))

    def _checked(self, node: PrimExpr) -> Var:
        lanes = self._mask.lanes.dtype.lanes
        if node.dtype.lanes != lanes:
            raise CodegenError(
                f"`{node}` has {node.dtype.lanes} lanes but is evaluated under a condition of "
                f"{lanes} lanes"
            )
        return self._mask.lanes
