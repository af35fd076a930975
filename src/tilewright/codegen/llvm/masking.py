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

    def whole(node: ir.PrimExpr) -> ir.PrimExpr | None:
        if can_speculate(node):
            return node
        if node.dtype.lanes > 1 and not _mixes_lanes(node):
            return None
        other = ir.const(0, node.dtype)
        return ir.Call(node.dtype, _IF_THEN_ELSE, (mask.any_lane, node, other))

    def load(node: ir.BufferLoad) -> ir.PrimExpr:
        lanes: ir.PrimExpr = _checked(mask, node)
        return ir.replace(
            node, predicate=lanes if node.predicate is None else ir.And(lanes, node.predicate)
        )

    def division(node: ir.BinaryOp) -> ir.PrimExpr:
        if node.dtype.is_float:
            return node
        one = ir.const(1, node.b.dtype)
        return ir.replace(node, b=ir.Select(_checked(mask, node), node.b, one))

    return ir.rewrite(
        expr, {ir.BufferLoad: load, _DIVISIONS: division}, before={ir.PrimExpr: whole}
    )


def _mixes_lanes(node: ir.PrimExpr) -> bool:
    if isinstance(node, ir.Call):
        return not (isinstance(node.op, ir.Op) and node.op.vectorizable)
    return isinstance(node, ir.Shuffle)


def _checked(mask: LaneMask, node: ir.PrimExpr) -> ir.Var:
    lanes = mask.lanes.dtype.lanes
    if node.dtype.lanes != lanes:
        raise CodegenError(
            f"`{node}` has {node.dtype.lanes} lanes but is evaluated under a condition of "
            f"{lanes} lanes"
        )
    return mask.lanes
