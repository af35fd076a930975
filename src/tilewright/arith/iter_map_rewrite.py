"""Writes index expressions as sums of iterator splits.

The two operations that matter are *fusing* a sum into one iterator (scales must chain: each is the
product of the extents below it) and *splitting* an iterator by a divisor. Where a divisor does not
divide an extent, the iterator is padded, unless the caller asked for a bijection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tilewright import ir
from tilewright.arith.analyzer import Analyzer
from tilewright.arith.iter_map import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr
from tilewright.arith.iter_map_padding import (
    FactorKey,
    IterPadding,
    NotAnIterMap,
    SplitKey,
    same_key,
)

# The splits of a sum with their scales relative to the smallest one.
SumKey: TypeAlias = tuple[tuple[SplitKey, FactorKey], ...]


class IterMapRewriter(IterPadding):
    """Turns expressions over given iterators into `IterSumExpr`s."""

    def __init__(
        self,
        analyzer: Analyzer,
        input_iters: Mapping[ir.Var, ir.Range],
        level: IterMapLevel,
        simplify_trivial: bool,
    ) -> None:
        super().__init__(analyzer, level)
        self.input_marks: list[IterMark] = []
        self.constrained: list[tuple[SumKey, IterMark, ir.PrimExpr]] = []
        self._var_map: dict[ir.Var, IterSumExpr] = {}
        self._fused: dict[SumKey, IterMark] = {}
        for var, domain in input_iters.items():
            self._declare(var, domain, simplify_trivial)

    def _declare(self, var: ir.Var, domain: ir.Range, simplify_trivial: bool) -> None:
        low = ir.cast(var.dtype, domain.min)
        extent = self.analyzer.simplify(ir.cast(var.dtype, domain.extent))
        if simplify_trivial and ir.is_one(extent):
            self._var_map[var] = IterSumExpr((), low)
            return
        mark = IterMark(var if ir.is_zero(low) else ir.subtract(var, low), extent)
        self.input_marks.append(mark)
        one = ir.int_imm(var.dtype, 1)
        self._var_map[var] = IterSumExpr((IterSplitExpr(mark, one, extent, one),), low)

    # --- expressions ---

    def rewrite_all(self, indices: Sequence[ir.PrimExpr]) -> list[IterSumExpr]:
        """Every index as a sum with at most one split, which is a fused iterator."""
        while True:
            # What is known about padding stays for another result.
            self.padding_changed = False
            self._used_padding.clear()
            sums = [self.rewrite(index) for index in indices]
            result = [self.fuse(s, always_wrap=True) if s.args else s for s in sums]
            if not self.padding_changed:
                return result

    def rewrite(self, expr: ir.PrimExpr) -> IterSumExpr:
        """The expression as a sum of splits."""
        match expr:
            case ir.Var():
                known = self._var_map.get(expr)
                return IterSumExpr((), expr) if known is None else known
            case ir.IntImm():
                return IterSumExpr((), expr)
            case ir.Add(a=a, b=b):
                return self._sum(self.rewrite(a), self.rewrite(b), 1)
            case ir.Sub(a=a, b=b):
                return self._sum(self.rewrite(a), self.rewrite(b), -1)
            case ir.Mul(a=a, b=b):
                return self._product(expr, self.rewrite(a), self.rewrite(b))
            case ir.FloorDiv(a=a, b=b):
                return self._divided(expr, self.rewrite(a), self.rewrite(b), remainder=False)
            case ir.FloorMod(a=a, b=b):
                return self._divided(expr, self.rewrite(a), self.rewrite(b), remainder=True)
        if not ir.uses_var(expr, self._var_map.__contains__):
            return IterSumExpr((), expr)
        raise NotAnIterMap(f"{type(expr).__name__} of iterators cannot be an iterator map")

    def _sum(self, a: IterSumExpr, b: IterSumExpr, sign: int) -> IterSumExpr:
        base = self.total(a.base, b.base) if sign > 0 else self.difference(a.base, b.base)
        if not b.args:
            return IterSumExpr(a.args, base)
        args = list(a.args)
        keys = [self.split_key(split) for split in args]
        for split in b.args:
            scale = (
                split.scale if sign > 0 else self.product(split.scale, ir.int_imm(split.dtype, -1))
            )
            key = self.split_key(split)
            for position, known in enumerate(keys):
                if same_key(known, key):
                    total = self.total(args[position].scale, scale)
                    args[position] = rescaled(split, total)
                    break
            else:
                args.append(rescaled(split, scale))
                keys.append(key)
        return IterSumExpr(tuple(arg for arg in args if not ir.is_zero(arg.scale)), base)

    def _product(self, expr: ir.PrimExpr, a: IterSumExpr, b: IterSumExpr) -> IterSumExpr:
        if a.args and b.args:
            raise NotAnIterMap(f"the product of two iterators, {expr}, cannot be an iterator map")
        many, factor = (a, b.base) if a.args else (b, a.base)
        args = tuple(rescaled(split, self.product(split.scale, factor)) for split in many.args)
        kept = tuple(arg for arg in args if not ir.is_zero(arg.scale))
        return IterSumExpr(kept, self.product(many.base, factor))

    # --- fusing ---

    def fuse(self, total: IterSumExpr, *, always_wrap: bool = False) -> IterSumExpr:
        """The sum with its splits combined into one."""
        args, base = self._joined(list(total.args)), total.base
        args, base = self._use_constraints(args, base)
        single_already = len(args) == 1 and args[0] is not total.args[0]
        if single_already or (len(args) == 1 and not always_wrap):
            return IterSumExpr(tuple(args), base)
        chain, unit, extent = self._chain(args)
        relative = [rescaled(arg, self._over(arg.scale, unit)) for arg in chain]
        mark = self._mark_of(relative, extent)
        one = ir.int_imm(mark.extent.dtype, 1)
        return IterSumExpr((IterSplitExpr(mark, one, mark.extent, unit),), base)

    def _over(self, scale: ir.PrimExpr, unit: ir.PrimExpr) -> ir.PrimExpr:
        return scale if ir.is_one(unit) else self.quotient(scale, unit)

    def sum_key(self, args: Sequence[IterSplitExpr]) -> SumKey:
        return tuple((self.split_key(arg), self.key_of(arg.scale)) for arg in args)

    def _mark_of(self, args: Sequence[IterSplitExpr], extent: ir.PrimExpr) -> IterMark:
        key = self.sum_key(args)
        known = self._fused.get(key)
        if known is None:
            zero = ir.int_imm(extent.dtype, 0)
            known = self._fused[key] = IterMark(IterSumExpr(tuple(args), zero), extent)
        return known

    def _chain(
        self, args: list[IterSplitExpr]
    ) -> tuple[list[IterSplitExpr], ir.PrimExpr, ir.PrimExpr]:
        """The splits from outer to inner, the scale of the innermost, and the extent of all."""
        rest = list(args)
        innermost = rest.pop(self._innermost(rest))
        unit, chain = innermost.scale, [innermost]
        expected = self.product(innermost.extent, unit)
        while rest:
            position = self._next_in_chain(rest, expected, unit)
            arg = rest.pop(position)
            # An outer scale below the span of the inner ones overlaps with them, without gaps.
            tail = self.difference(expected, arg.scale)
            expected = self.total(self.product(arg.extent, arg.scale), tail)
            chain.insert(0, arg)
        return chain, unit, self._over(expected, unit)

    def _innermost(self, args: list[IterSplitExpr]) -> int:
        if len(args) == 1:
            return 0
        ranks = [
            (abs(arg.scale.value), not ir.is_one(arg.extent), -position)
            for position, arg in enumerate(args)
            if isinstance(arg.scale, ir.IntImm)
        ]
        if not ranks:
            raise NotAnIterMap("no iterator of the sum has a constant scale")
        return -min(ranks)[2]

    def _next_in_chain(
        self, rest: list[IterSplitExpr], expected: ir.PrimExpr, unit: ir.PrimExpr
    ) -> int:
        for position in range(len(rest) - 1, -1, -1):
            if self.equal(rest[position].scale, expected):
                return position
        overlapping = self.level != IterMapLevel.BIJECTIVE and ir.is_one(unit)
        if overlapping and isinstance(expected, ir.IntImm):
            below = [
                (arg.scale.value, position)
                for position, arg in enumerate(rest)
                if isinstance(arg.scale, ir.IntImm) and 0 < arg.scale.value < expected.value
            ]
            if below:
                return max(below)[1]
        for position, arg in enumerate(rest):
            if ir.is_one(arg.extent):  # one value adds nothing, whatever its scale
                return position
        raise NotAnIterMap("the scales of the iterators do not chain into one iterator")

    def _joined(self, args: list[IterSplitExpr]) -> list[IterSplitExpr]:
        """Neighbouring digits of one mark become one split: `x // 4 * 4 + x % 4` is `x`."""
        for low_at, low in enumerate(args):
            for high_at, high in enumerate(args):
                if low is high or low.source is not high.source:
                    continue
                next_lower = self.product(low.lower_factor, low.extent)
                next_scale = self.product(low.scale, low.extent)
                if self.equal(high.lower_factor, next_lower) and self.equal(high.scale, next_scale):
                    extent = self.product(low.extent, high.extent)
                    joined = IterSplitExpr(low.source, low.lower_factor, extent, low.scale)
                    place = min(low_at, high_at)
                    kept = [a for a in args if a is not low and a is not high]
                    return self._joined([*kept[:place], joined, *kept[place:]])
        return args

    def _use_constraints(
        self, args: list[IterSplitExpr], base: ir.PrimExpr
    ) -> tuple[list[IterSplitExpr], ir.PrimExpr]:
        """Replace sums that a predicate bounds by the iterators made for them."""
        for key, mark, offset in self.constrained:
            found = self._find_sum(args, key)
            if found is None:
                continue
            positions, unit = found
            one = ir.int_imm(mark.extent.dtype, 1)
            fused = IterSplitExpr(mark, one, mark.extent, unit)
            args = [arg for at, arg in enumerate(args) if at not in positions]
            args.insert(min(positions), fused)
            base = self.analyzer.simplify(ir.add(base, self.product(offset, unit)))
        return args, base

    def _find_sum(
        self, args: list[IterSplitExpr], wanted: SumKey
    ) -> tuple[set[int], ir.PrimExpr] | None:
        """Where the splits of `wanted` stand among `args`, and their common factor."""
        positions: set[int] = set()
        unit: ir.PrimExpr | None = None
        for key, relative in reversed(wanted):  # the innermost has relative scale 1
            at = next(
                (
                    p
                    for p, arg in enumerate(args)
                    if p not in positions and same_key(self.split_key(arg), key)
                ),
                None,
            )
            if at is None:
                return None
            scale = args[at].scale
            if unit is None:
                unit = scale
            factor = ir.const(relative, scale.dtype) if isinstance(relative, int) else relative
            if not self.equal(scale, self.product(unit, factor)):
                return None
            positions.add(at)
        return None if unit is None else (positions, unit)

    def constrain(
        self, total: IterSumExpr, low: ir.PrimExpr | None, high: ir.PrimExpr | None
    ) -> None:
        """Note that `low <= total < high`, for all later sums that contain it."""
        single = self.fuse(total)
        (split,) = single.args
        if isinstance(split.source.source, IterSumExpr):
            args, natural = split.source.source.args, split.source.extent
        else:
            args, natural = (rescaled(split, ir.int_imm(split.dtype, 1)),), split.extent
        first = self._bound_over(low, single.base, split.scale, ir.int_imm(split.dtype, 0))
        last = self._bound_over(high, single.base, split.scale, natural)
        if self.analyzer.can_prove(first <= 0):
            first = ir.int_imm(split.dtype, 0)
        if self.analyzer.can_prove(last >= natural):
            last = natural
        if ir.is_zero(first) and last is natural:
            return
        shifted = IterSumExpr(
            args, self.analyzer.simplify(ir.subtract(ir.int_imm(split.dtype, 0), first))
        )
        extent = self.analyzer.simplify(ir.subtract(last, first))
        if isinstance(extent, ir.IntImm) and extent.value <= 0:
            raise NotAnIterMap("the predicate leaves no iteration at all")
        mark = IterMark(shifted, extent)
        self.constrained.append((self.sum_key(args), mark, first))

    def _bound_over(
        self, bound: ir.PrimExpr | None, base: ir.PrimExpr, unit: ir.PrimExpr, default: ir.PrimExpr
    ) -> ir.PrimExpr:
        """`ceil((bound - base) / unit)`: a bound of the sum as a bound of its fused iterator."""
        if bound is None:
            return default
        distance = ir.subtract(bound, base)
        if ir.is_one(unit):
            return self.analyzer.simplify(distance)
        if not (isinstance(unit, ir.IntImm) and unit.value > 0):
            raise NotAnIterMap("a predicate bounds a sum of iterators with a negative scale")
        return self.analyzer.simplify(ir.floordiv(distance + (unit.value - 1), unit))

    # --- splitting ---

    def _divided(
        self, expr: ir.PrimExpr, total: IterSumExpr, divisor: IterSumExpr, *, remainder: bool
    ) -> IterSumExpr:
        if divisor.args:
            raise NotAnIterMap(f"division by an iterator in {expr} cannot be an iterator map")
        by = divisor.base
        if ir.is_zero(by):
            raise NotAnIterMap(f"division by zero in {expr}")
        if not total.args:
            divide = ir.floormod if remainder else ir.floordiv
            return IterSumExpr((), self.analyzer.simplify(divide(total.base, by)))
        if ir.is_one(by):
            return IterSumExpr((), ir.int_imm(total.dtype, 0)) if remainder else total
        if all(self.divides(by, arg.scale) for arg in total.args):
            return self._divided_exactly(total, by, remainder)
        single = self.fuse(total)
        (split,) = single.args
        if not self.divides(split.scale, by):
            raise NotAnIterMap(
                f"cannot divide an iterator of scale {split.scale} by {by} in {expr}"
            )
        reduced = self.quotient(by, split.scale)
        if isinstance(reduced, ir.IntImm) and reduced.value < 0:
            raise NotAnIterMap(f"an iterator that runs backwards is divided in {expr}")
        unit, base = rescaled(split, ir.int_imm(split.dtype, 1)), single.base
        inner_base = self._over(base, split.scale)
        left_over = self.analyzer.simplify(ir.floormod(base, split.scale)) if remainder else base
        result = self._split_by(unit, inner_base, reduced, remainder=remainder)
        if not remainder or ir.is_one(split.scale):
            return result
        scaled = self._product(expr, result, IterSumExpr((), split.scale))
        return IterSumExpr(scaled.args, self.analyzer.simplify(ir.add(scaled.base, left_over)))

    def _divided_exactly(self, total: IterSumExpr, by: ir.PrimExpr, remainder: bool) -> IterSumExpr:
        if remainder:
            return IterSumExpr((), self.analyzer.simplify(ir.floormod(total.base, by)))
        args = tuple(rescaled(arg, self.quotient(arg.scale, by)) for arg in total.args)
        return IterSumExpr(args, self.quotient(total.base, by))

    def _split_by(
        self, split: IterSplitExpr, base: ir.PrimExpr, by: ir.PrimExpr, *, remainder: bool
    ) -> IterSumExpr:
        """`(split + base) // by` or its remainder, for a split of scale 1."""
        split, base = self.padded_to(split, base, by, remainder)
        if remainder:
            rest = self.analyzer.simplify(ir.floormod(base, by))
            digit = IterSplitExpr(split.source, split.lower_factor, by, split.scale)
            return IterSumExpr((digit,), rest)
        lower = self.product(split.lower_factor, by)
        digit = IterSplitExpr(split.source, lower, self.quotient(split.extent, by), split.scale)
        return IterSumExpr((digit,), self.quotient(base, by))


def rescaled(split: IterSplitExpr, scale: ir.PrimExpr) -> IterSplitExpr:
    """A split with another scale."""
    return IterSplitExpr(split.source, split.lower_factor, split.extent, scale)
