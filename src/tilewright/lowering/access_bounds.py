"""The smallest and the largest value of an index while inner loops run, as expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilewright.arith import Analyzer
from tilewright.ir import (
    Add,
    BinaryOp,
    Broadcast,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Ramp,
    Range,
    Sub,
    Var,
    cast,
    const,
    floordiv,
    floormod,
    maximum,
    minimum,
    uses_var,
)


class IndexInterval(NamedTuple):
    """All integers from `low` to `high`, both included."""

    low: PrimExpr
    high: PrimExpr


_COMBINE: dict[type[BinaryOp], Callable[[IndexInterval, IndexInterval], IndexInterval]] = {
    Add: lambda x, y: IndexInterval(x.low + y.low, x.high + y.high),
    Sub: lambda x, y: IndexInterval(x.low - y.high, x.high - y.low),
    Min: lambda x, y: IndexInterval(*map(minimum, x, y)),
    Max: lambda x, y: IndexInterval(*map(maximum, x, y)),
}


class IndexBounds:
    """Interval arithmetic over the variables that `domains` holds; all others stay as they are."""

    def __init__(self, domains: dict[Var, Range], analyzer: Analyzer) -> None:
        self._domains = domains
        self._analyzer = analyzer

    def of(self, expr: PrimExpr) -> IndexInterval | None:
        """The interval of an expression, or None where it is not known."""
        if expr.dtype.lanes == 1 and not uses_var(expr, self._domains.__contains__):
            return IndexInterval(expr, expr)
        match expr:
            case Var() if expr in self._domains:
                return self._of_var(expr)
            case Add() | Sub() | Min() | Max():
                return self._of_binary(expr)
            case Mul(a=a, b=IntImm(value=factor)) | Mul(a=IntImm(value=factor), b=a):
                inner = self.of(a)
                if inner is None:
                    return None
                ends = inner.low * factor, inner.high * factor
                return IndexInterval(*(ends if factor >= 0 else reversed(ends)))
            case FloorDiv(a=a, b=IntImm(value=divisor)) if divisor > 0:
                inner = self.of(a)
                return inner and IndexInterval(*(floordiv(end, divisor) for end in inner))
            case FloorMod(a=a, b=IntImm(value=modulus)) if modulus > 0:
                return self._of_remainder(a, modulus)
            case Cast(dtype=dtype, value=value) if dtype.is_int and value.dtype.is_int:
                inner = self.of(value)
                return inner and IndexInterval(*(cast(dtype, end) for end in inner))
            case Ramp(base=base, stride=IntImm(value=stride), lanes=lanes):
                inner = self.of(base)
                reach = stride * (lanes - 1)
                return inner and IndexInterval(
                    inner.low + min(reach, 0), inner.high + max(reach, 0)
                )
            case Broadcast(value=value):
                return self.of(value)
        return None

    def _of_var(self, var: Var) -> IndexInterval | None:
        domain = self._domains[var]
        first, last = self.of(domain.min), self.of(domain.min + domain.extent - 1)
        return None if first is None or last is None else IndexInterval(first.low, last.high)

    def _of_binary(self, expr: BinaryOp) -> IndexInterval | None:
        left, right = self.of(expr.a), self.of(expr.b)
        if left is None or right is None:
            return None
        return _COMBINE[type(expr)](left, right)

    def _of_remainder(self, a: PrimExpr, modulus: int) -> IndexInterval:
        inner = self.of(a)
        if inner is not None:
            blocks = (floordiv(end, modulus) for end in inner)
            if self._analyzer.can_prove_equal(*blocks):
                return IndexInterval(*(floormod(end, modulus) for end in inner))
        return IndexInterval(const(0, a.dtype), const(modulus - 1, a.dtype))
