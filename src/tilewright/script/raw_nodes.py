"""`T.Add(a, b)` and its like: exactly this node, without folding or matching types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import ir
from tilewright.ir import BinaryOp, PrimExpr, convert


def _raw(node_class: type[BinaryOp]) -> Callable[[Any, Any], PrimExpr]:
    def build(a: Any, b: Any) -> PrimExpr:
        return node_class(convert(a), convert(b))

    build.__name__ = build.__qualname__ = node_class.__name__
    return build


EQ = _raw(ir.EQ)
GE = _raw(ir.GE)
GT = _raw(ir.GT)
LE = _raw(ir.LE)
LT = _raw(ir.LT)
NE = _raw(ir.NE)
Add = _raw(ir.Add)
And = _raw(ir.And)
Div = _raw(ir.Div)
FloorDiv = _raw(ir.FloorDiv)
FloorMod = _raw(ir.FloorMod)
Max = _raw(ir.Max)
Min = _raw(ir.Min)
Mod = _raw(ir.Mod)
Mul = _raw(ir.Mul)
Or = _raw(ir.Or)
Sub = _raw(ir.Sub)
