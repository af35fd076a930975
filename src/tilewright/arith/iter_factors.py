"""Arithmetic on the factors of iterator splits: extents, scales and lower factors.

Most factors are constants, which are computed at once; symbolic ones go through the analyzer.
"""

from __future__ import annotations

from typing import TypeAlias

from tilewright import ir
from tilewright.arith.analyzer import Analyzer
from tilewright.arith.iter_map import IterMark, IterSplitExpr, is_constant

FactorKey: TypeAlias = int | ir.PrimExpr
SplitKey: TypeAlias = tuple[IterMark, FactorKey, FactorKey]


class FactorArithmetic:
    """Products, quotients and proofs about factors."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def key_of(self, factor: ir.PrimExpr) -> FactorKey:
        return (
            factor.value if isinstance(factor, ir.IntImm) else self.analyzer.representative(factor)
        )

    def split_key(self, split: IterSplitExpr) -> SplitKey:
        return split.source, self.key_of(split.lower_factor), self.key_of(split.extent)

    def product(self, a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr:
        # Constants go without the checks of `const`: this is on the hot path.
        if isinstance(b, ir.IntImm) and isinstance(a, ir.IntImm):
            return ir.int_imm(a.dtype, a.value * b.value)
        return self.analyzer.simplify(ir.multiply(a, b))

    def quotient(self, a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr:
        if isinstance(b, ir.IntImm) and isinstance(a, ir.IntImm):
            return ir.int_imm(a.dtype, a.value // b.value)
        return self.analyzer.simplify(ir.floordiv(a, b))

    def total(self, a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr:
        if isinstance(b, ir.IntImm) and isinstance(a, ir.IntImm):
            return ir.int_imm(a.dtype, a.value + b.value)
        return self.analyzer.simplify(ir.add(a, b))

    def difference(self, a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr:
        if isinstance(b, ir.IntImm) and isinstance(a, ir.IntImm):
            return ir.int_imm(a.dtype, a.value - b.value)
        return self.analyzer.simplify(ir.subtract(a, b))

    def equal(self, a: ir.PrimExpr, b: ir.PrimExpr) -> bool:
        if isinstance(a, ir.IntImm) and isinstance(b, ir.IntImm):
            return a.value == b.value
        return self.analyzer.can_prove_equal(a, b)

    def divides(self, divisor: ir.PrimExpr, value: ir.PrimExpr) -> bool:
        """True when `value` is a multiple of `divisor`."""
        if isinstance(divisor, ir.IntImm) and isinstance(value, ir.IntImm):
            return divisor.value != 0 and value.value % divisor.value == 0
        if is_constant(divisor, 0):
            return False
        return self.analyzer.can_prove_equal(ir.floormod(value, divisor), 0)


def round_up(value: ir.PrimExpr, divisor: ir.PrimExpr) -> ir.PrimExpr:
    """The next multiple of a number; a symbolic one has the form that TVM gives it."""
    if isinstance(value, ir.IntImm) and isinstance(divisor, ir.IntImm):
        return ir.int_imm(value.dtype, -(-value.value // divisor.value) * divisor.value)
    rest = rest_of(value, divisor)
    total = ir.subtract(value, rest) if isinstance(divisor, ir.IntImm) else ir.add(rest, value)
    return ir.multiply(ir.floordiv(total, divisor), divisor)


def rest_of(value: ir.PrimExpr, divisor: ir.PrimExpr) -> ir.PrimExpr:
    """How far a number is from the next multiple of another, with either sign: as TVM writes it."""
    if isinstance(divisor, ir.IntImm):
        return ir.floormod(value, ir.int_imm(divisor.dtype, -divisor.value))
    return ir.floormod(ir.subtract(ir.int_imm(value.dtype, 0), value), divisor)
