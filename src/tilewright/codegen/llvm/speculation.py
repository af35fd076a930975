"""May an expression be evaluated where the program would not have evaluated it?"""

from __future__ import annotations

from tilewright.ir import BinaryOp, BufferLoad, Call, Node, Op, children
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
