"""Arithmetic on the factors of iterator splits: extents, scales and lower factors.

Most factors are constants, which are computed at once; symbolic ones go through the analyzer.
"""

from __future__ import annotations

from typing import TypeAlias

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.iter_map import IterMark, IterSplitExpr, is_constant
from tilewright.ir import (
    DType,
    IntImm,
    PrimExpr,
    add,
    floordiv,
    floormod,
    int_imm,
    multiply,
    subtract,
)

FactorKey: TypeAlias = int | PrimExpr
SplitKey: TypeAlias = tuple[IterMark, FactorKey, FactorKey]


class FactorArithmetic:
    """Products, quotients and proofs about factors."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def key_of(self, factor: PrimExpr) -> FactorKey:
        return factor.value if isinstance(factor, IntImm) else self.analyzer.representative(factor)

    def split_key(self, split: IterSplitExpr) -> SplitKey:
        return split.source, self.key_of(split.lower_factor), self.key_of(split.extent)

    def product(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if isinstance(b, IntImm) and isinstance(a, IntImm):
            return number(a.value * b.value, a.dtype)
        return self.analyzer.simplify(multiply(a, b))

    def quotient(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if isinstance(b, IntImm) and isinstance(a, IntImm):
            return number(a.value // b.value, a.dtype)
        return self.analyzer.simplify(floordiv(a, b))

    def total(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if isinstance(b, IntImm) and isinstance(a, IntImm):
            return number(a.value + b.value, a.dtype)
        return self.analyzer.simplify(add(a, b))

    def difference(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if isinstance(b, IntImm) and isinstance(a, IntImm):
            return number(a.value - b.value, a.dtype)
        return self.analyzer.simplify(subtract(a, b))

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value == b.value
        return self.analyzer.can_prove_equal(a, b)

    def divides(self, divisor: PrimExpr, value: PrimExpr) -> bool:
        """True when `value` is a multiple of `divisor`."""
        if isinstance(divisor, IntImm) and isinstance(value, IntImm):
            return divisor.value != 0 and value.value % divisor.value == 0
        if is_constant(divisor, 0):
            return False
        return self.analyzer.can_prove_equal(floormod(value, divisor), 0)


def number(value: int, dtype: DType) -> PrimExpr:
    """An integer constant; without the checks of `const`, as this is on the hot path."""
    return int_imm(dtype, value)


def round_up(value: PrimExpr, divisor: PrimExpr) -> PrimExpr:
    """The next multiple of a number; a symbolic one has the form that TVM gives it."""
    if isinstance(value, IntImm) and isinstance(divisor, IntImm):
        return number(-(-value.value // divisor.value) * divisor.value, value.dtype)
    rest = rest_of(value, divisor)
    total = subtract(value, rest) if isinstance(divisor, IntImm) else add(rest, value)
    return multiply(floordiv(total, divisor), divisor)


def rest_of(value: PrimExpr, divisor: PrimExpr) -> PrimExpr:
    """How far a number is from the next multiple of another, with either sign: as TVM writes it."""
    if isinstance(divisor, IntImm):
        return floormod(value, number(-divisor.value, divisor.dtype))
    return floormod(subtract(number(0, value.dtype), value), divisor)
