"""Iterators that are extended until a divisor divides them, and arithmetic on their factors.

Most factors are constants, which are computed at once; symbolic ones go through the analyzer.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import TypeAlias

from tilewright import ir
from tilewright.arith.analyzer import Analyzer
from tilewright.arith.iter_map import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, PaddedMark

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
        if ir.is_zero(divisor):
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


class NotAnIterMap(Exception):
    """The expression is no iterator map; the message says why. Never leaves this package."""


@dataclass(eq=False)
class Padding:
    """How far an iterator is extended: counted from `-left`, up to a multiple of `divisor`."""

    left: int
    divisor: ir.PrimExpr


class IterPadding(FactorArithmetic):
    """Knows which iterators are padded, and how far."""

    def __init__(self, analyzer: Analyzer, level: IterMapLevel) -> None:
        super().__init__(analyzer)
        self.level = level
        self.padding_changed = False
        self._padding: dict[SplitKey, Padding] = {}
        self._padded: dict[SplitKey, PaddedMark] = {}
        self._used_padding: dict[IterMark, PaddedMark] = {}

    @property
    def padding(self) -> tuple[PaddedMark, ...]:
        """The padded iterators that the last result is made of."""
        return tuple(self._used_padding.values())

    def padded_to(
        self, split: IterSplitExpr, base: ir.PrimExpr, by: ir.PrimExpr, remainder: bool
    ) -> tuple[IterSplitExpr, ir.PrimExpr]:
        """The split, extended so that `by` divides its extent, and a base that `by` divides."""
        key = self.split_key(split)
        needs_none = self.divides(by, split.extent) and self.divides(by, base)
        if needs_none and self._known_padding(key) is None:
            return split, base
        if self.level == IterMapLevel.BIJECTIVE:
            raise NotAnIterMap(f"an iterator of extent {split.extent} cannot be divided by {by}")
        self._check_can_pad(split.extent, by, remainder)
        padded = self._pad(key, split, base, by)
        shifted = ir.subtract(base, padded.left_pad)
        if not self.divides(by, shifted):
            raise NotAnIterMap(f"one iterator is divided by {by} with different offsets")
        one = ir.int_imm(split.dtype, 1)
        extended = IterSplitExpr(padded.mark, one, padded.mark.extent, one)
        return extended, self.analyzer.simplify(shifted)

    def _check_can_pad(self, extent: ir.PrimExpr, by: ir.PrimExpr, remainder: bool) -> None:
        if self.level == IterMapLevel.NO_CHECK:
            known = not isinstance(by, ir.IntImm) or by.value > 0
        else:
            known = isinstance(by, ir.IntImm) and isinstance(extent, ir.IntImm) and by.value > 0
            if known and remainder and extent.value < by.value:  # type: ignore[attr-defined]
                raise NotAnIterMap(f"an iterator of extent {extent} misses some remainders")
        if not known:
            raise NotAnIterMap(f"cannot prove that {by} divides the extent {extent}")

    def _known_padding(self, key: SplitKey) -> Padding | None:
        return next((p for k, p in self._padding.items() if same_key(k, key)), None)

    def _pad(
        self, key: SplitKey, split: IterSplitExpr, base: ir.PrimExpr, by: ir.PrimExpr
    ) -> PaddedMark:
        padding = self._known_padding(key)
        if padding is None:
            left = self.analyzer.simplify(ir.floormod(base, by))
            if not isinstance(left, ir.IntImm):
                raise NotAnIterMap(f"cannot find the offset {base} modulo {by}")
            padding = self._padding[key] = Padding(left.value, by)
            self.padding_changed = True
        divisor = self._common_multiple(padding.divisor, by)
        if divisor is not padding.divisor:
            padding.divisor = divisor
            self.padding_changed = True
        known = self._padded.get(key)
        if known is None or known.divisor is not divisor:
            known = self._padded[key] = self._make_padded(split, padding)
        self._used_padding[known.mark] = known
        return known

    def _common_multiple(self, known: ir.PrimExpr, by: ir.PrimExpr) -> ir.PrimExpr:
        if self.divides(by, known):
            return known
        if isinstance(known, ir.IntImm) and isinstance(by, ir.IntImm):
            return ir.int_imm(by.dtype, lcm(known.value, by.value))
        if not self.divides(known, by):
            raise NotAnIterMap(f"one iterator is divided by {known} and by {by}")
        return by

    def _make_padded(self, split: IterSplitExpr, padding: Padding) -> PaddedMark:
        used = self.total(split.extent, ir.int_imm(split.dtype, padding.left))
        extent = round_up(used, padding.divisor)
        shifted = IterSumExpr((split,), ir.const(padding.left, split.dtype))
        return PaddedMark(IterMark(shifted, extent), padding.left, split.extent, padding.divisor)


def same_key(a: SplitKey, b: SplitKey) -> bool:
    """Equal as keys; never compares expressions with `==`, which would build a node."""
    return hash(a) == hash(b) and all(
        p is q or (isinstance(p, int) and isinstance(q, int) and p == q)
        for p, q in zip(a, b, strict=True)
    )
