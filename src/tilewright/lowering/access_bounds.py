"""The smallest and the largest value of an index while inner loops run, as expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilewright import ir
from tilewright.arith import Analyzer


class IndexInterval(NamedTuple):
    """All integers from `low` to `high`, both included."""

    low: ir.PrimExpr
    high: ir.PrimExpr


_COMBINE: dict[type[ir.BinaryOp], Callable[[IndexInterval, IndexInterval], IndexInterval]] = {
    ir.Add: lambda x, y: IndexInterval(x.low + y.low, x.high + y.high),
    ir.Sub: lambda x, y: IndexInterval(x.low - y.high, x.high - y.low),
    ir.Min: lambda x, y: IndexInterval(*map(ir.minimum, x, y)),
    ir.Max: lambda x, y: IndexInterval(*map(ir.maximum, x, y)),
}


class IndexBounds:
    """Interval arithmetic over the variables that `domains` holds; all others stay as they are."""

    def __init__(self, domains: dict[ir.Var, ir.Range], analyzer: Analyzer) -> None:
        self._domains = domains
        self._analyzer = analyzer

    def of(self, expr: ir.PrimExpr) -> IndexInterval | None:
        """The interval of an expression, or None where it is not known."""
        if expr.dtype.lanes == 1 and not ir.uses_var(expr, self._domains.__contains__):
            return IndexInterval(expr, expr)
        match expr:
            case ir.Var() if expr in self._domains:
                domain = self._domains[expr]
                first, last = self.of(domain.min), self.of(domain.min + domain.extent - 1)
                return first and last and IndexInterval(first.low, last.high)
            case ir.Add() | ir.Sub() | ir.Min() | ir.Max():
                left, right = self.of(expr.a), self.of(expr.b)
                return left and right and _COMBINE[type(expr)](left, right)
            case ir.Mul(a=a, b=ir.IntImm(value=factor)) | ir.Mul(a=ir.IntImm(value=factor), b=a):
                inner = self.of(a)
                ends = inner and (inner if factor >= 0 else inner[::-1])
                return ends and IndexInterval(ends[0] * factor, ends[1] * factor)
            case ir.FloorDiv(a=a, b=ir.IntImm(value=divisor)) if divisor > 0:
                inner = self.of(a)
                return inner and IndexInterval(*(ir.floordiv(end, divisor) for end in inner))
            case ir.FloorMod(a=a, b=ir.IntImm(value=modulus)) if modulus > 0:
                return self._of_remainder(a, modulus)
            case ir.Cast(dtype=dtype, value=value) if dtype.is_int and value.dtype.is_int:
                inner = self.of(value)
                return inner and IndexInterval(*(ir.cast(dtype, end) for end in inner))
            case ir.Ramp(base=base, stride=ir.IntImm(value=stride), lanes=lanes):
                inner = self.of(base)
                reach = stride * (lanes - 1)
                return inner and IndexInterval(
                    inner.low + min(reach, 0), inner.high + max(reach, 0)
                )
            case ir.Broadcast(value=value):
                return self.of(value)
        return None

    def _of_remainder(self, a: ir.PrimExpr, modulus: int) -> IndexInterval:
        inner = self.of(a)
        if inner is not None:
            blocks = (ir.floordiv(end, modulus) for end in inner)
            if self._analyzer.can_prove_equal(*blocks):
                return IndexInterval(*(ir.floormod(end, modulus) for end in inner))
        return IndexInterval(ir.const(0, a.dtype), ir.const(modulus - 1, a.dtype))
