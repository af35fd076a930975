"""Building operations whose operands may have become constants."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir.arithmetic import (
    add,
    divide,
    equal,
    floordiv,
    floormod,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_or,
    maximum,
    minimum,
    multiply,
    not_equal,
    subtract,
    truncdiv,
    truncmod,
)
from tilewright.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    PrimExpr,
    Sub,
)


def _quotient(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return divide(a, b) if a.dtype.is_float else truncdiv(a, b)


# What each operation evaluates to, or builds where it cannot be evaluated yet.
FOLDERS: dict[type[BinaryOp], Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    Add: add,
    Sub: subtract,
    Mul: multiply,
    Div: _quotient,
    Mod: truncmod,
    FloorDiv: floordiv,
    FloorMod: floormod,
    Min: minimum,
    Max: maximum,
    EQ: equal,
    NE: not_equal,
    LT: less,
    LE: less_equal,
    GT: greater,
    GE: greater_equal,
    And: logical_and,
    Or: logical_or,
}
_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


def fold_binary(node_class: type[BinaryOp], a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """`node_class(a, b)` with constants folded; a division by zero stays for the run to meet."""
    if node_class in _DIVISIONS and type(b) is IntImm and b.value == 0:
        return node_class(a, b)
    return FOLDERS[node_class](a, b)
