"""Dividing the iterators of a block between the loops around it and the loops inside.

Every iterator becomes an outer and an inner one, `v = v_o * inner extent + v_i`; those with a
single value are left out of the block that does not need them. This is what `blockize` is made of.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright import arith, ir
from tilewright.schedule.state.scope import domain_of


@dataclass(frozen=True)
class Part:
    """One iterator of the outer or inner block and what it is bound to."""

    extent: ir.PrimExpr
    value: ir.PrimExpr

    @property
    def is_unit(self) -> bool:
        return ir.is_one(self.extent)


@dataclass(frozen=True)
class Division:
    """An iterator divided: `offset + outer * inner.extent + inner`."""

    outer: Part
    inner: Part
    offset: ir.PrimExpr | None = None


@dataclass(frozen=True)
class DividedBindings:
    """All iterators of a block divided, and the two halves of its predicate."""

    divisions: tuple[Division, ...]
    outer_predicate: ir.PrimExpr
    inner_predicate: ir.PrimExpr


def divide_bindings(
    realize: ir.BlockRealize,
    domains: Mapping[ir.Var, ir.Range],
    inner_loops: set[ir.Var],
    *,
    preserve_unit_iters: bool,
) -> DividedBindings | None:
    """The bindings of a block divided; None if outer and inner loops mix in them."""
    unguarded, around = ir.is_true(realize.predicate), _Around(domains, inner_loops)
    if unguarded and preserve_unit_iters:
        simple = _divide_simple(realize, around, only_if_sure=True)
        if simple is not None:
            return simple
    marks = arith.subspace_divide(
        realize.iter_values,
        domains,
        inner_loops,
        realize.predicate,
        arith.IterMapLevel.SURJECTIVE,
        not preserve_unit_iters,
    )
    if not marks:
        return _divide_simple(realize, around, only_if_sure=False) if unguarded else None
    *pairs, (outer_condition, inner_condition) = marks
    divisions = []
    for iter_var, value, pair in zip(
        realize.block.iter_vars, realize.iter_values, pairs, strict=True
    ):
        if isinstance(value, ir.IntImm):  # a constant belongs to the outer block, whatever it is
            divisions.append(_all_outer(iter_var, value))
            continue
        division = _division_of(*pair, iter_var.var.dtype)
        extents = (division.outer.extent, division.inner.extent)
        if any(ir.uses_var(extent, domains.__contains__) for extent in extents):
            # No domain for an iterator; its own one is.
            if (side := around.side(value, ())) is None:
                return None
            division = side(iter_var, value)
        divisions.append(division)
    found = (outer_condition.extent, inner_condition.extent)
    predicates = found if unguarded else _with_lost_parts(realize, around, *found)
    return None if predicates is None else DividedBindings(tuple(divisions), *predicates)


def _with_lost_parts(
    realize: ir.BlockRealize, around: _Around, outer: ir.PrimExpr, inner: ir.PrimExpr
) -> tuple[ir.PrimExpr, ir.PrimExpr] | None:
    """Add what the two predicates do not say of the block's own; None if it fits neither.

    The division knows of a bound on a single loop, and drops it: its iterators are shorter than
    the loops, which go on running as far as they did.
    """
    analyzer = arith.Analyzer(around.domains)
    with analyzer.constraint_scope(ir.logical_and(outer, inner)):
        lost = [part for part in ir.conjuncts(realize.predicate) if not analyzer.can_prove(part)]
    for part in lost:
        simple = analyzer.simplify(part)
        if not around.moves_inside(simple):
            outer = ir.logical_and(outer, simple)
        elif not around.moves_outside(simple):
            inner = ir.logical_and(inner, simple)
        else:
            return None
    return outer, inner


def _division_of(outer: arith.IterMark, inner: arith.IterMark, dtype: ir.DType) -> Division:
    """Iterators start at zero; what the bindings add to them goes into the body."""
    outer_value, outer_base = _without_base(outer.source, dtype)
    inner_value, inner_base = _without_base(inner.source, dtype)
    extent = ir.cast(dtype, inner.extent)
    offset: ir.PrimExpr | None = None
    if outer_base is not None or inner_base is not None:
        zero = ir.const(0, dtype)
        offset = (zero if outer_base is None else outer_base) * extent
        offset = offset + (zero if inner_base is None else inner_base)
    return Division(
        Part(ir.cast(dtype, outer.extent), outer_value), Part(extent, inner_value), offset
    )


def _without_base(source: ir.PrimExpr, dtype: ir.DType) -> tuple[ir.PrimExpr, ir.PrimExpr | None]:
    """The value of an iterator mark that starts at zero, and where it really starts."""
    if isinstance(source, arith.IterSumExpr) and not ir.is_zero(source.base):
        return _plain(arith.IterSumExpr(source.args, ir.const(0, dtype)), dtype), source.base
    return _plain(source, dtype), None


def _plain(source: ir.PrimExpr, dtype: ir.DType) -> ir.PrimExpr:
    """The value of an iterator mark as an ordinary expression."""
    if isinstance(source, (arith.IterSumExpr, arith.IterSplitExpr)):
        return ir.cast(dtype, arith.normalize_iter_map_to_expr(source))
    return source


def _divide_simple(
    realize: ir.BlockRealize, around: _Around, *, only_if_sure: bool
) -> DividedBindings | None:
    """Without iterator maps: each binding belongs to one side or is a mixed-radix number.

    An iterator on the inner side is thought to take all its values; that is known only of plain
    loops and of numbers made of them.
    """
    divisions: list[Division] = []
    all_digits: list[list[_Digit]] = []
    parts_on_both_sides = False
    for iter_var, value in realize.bindings:
        digits = _digits_of(value, around.domains)
        side = around.side(value, digits)
        if side is _all_inner:
            fills = around.fills(iter_var, value, digits)
            if fills is False or (only_if_sure and fills is None):
                return None  # a part of a program: the new block would claim to access all of it
        if side is not None:
            division = side(iter_var, value)
        else:
            if (found := _divide_digits(digits, around.inner, value.dtype)) is None:
                return None
            division = found
            parts_on_both_sides |= any(digit.is_part for digit in digits)
        divisions.append(division)
        all_digits.append(digits)
    if parts_on_both_sides and not _are_independent(realize.iter_values, all_digits):
        return None
    return DividedBindings(tuple(divisions), ir.TRUE, ir.TRUE)


@dataclass(frozen=True)
class _Around:
    """The loops around a block, and which of them are inside of the new one."""

    domains: Mapping[ir.Var, ir.Range]
    inner: set[ir.Var]

    def moves_inside(self, value: ir.PrimExpr) -> bool:
        """Whether a value depends on loops inside."""
        return ir.uses_var(value, self.inner.__contains__)

    def moves_outside(self, value: ir.PrimExpr) -> bool:
        """Whether it depends on loops outside."""
        return ir.uses_var(value, lambda var: var in self.domains and var not in self.inner)

    def side(self, value: ir.PrimExpr, digits: Sequence[_Digit]) -> _Side | None:
        """The side that a binding belongs to; None if it belongs to both."""
        if digits:
            inside = sum(digit.loop in self.inner for digit in digits)
            return _all_outer if not inside else _all_inner if inside == len(digits) else None
        if not self.moves_inside(value):
            return _all_outer
        return None if self.moves_outside(value) else _all_inner

    def fills(
        self, iter_var: ir.IterVar, value: ir.PrimExpr, digits: Sequence[_Digit]
    ) -> bool | None:
        """Whether a binding takes all values of its iterator; None if that is not known."""
        extent = domain_of(iter_var).extent
        if digits:
            most = math.prod(digit.extent for digit in digits)
            return isinstance(extent, ir.IntImm) and extent.value <= most
        if not isinstance(value, ir.Var):
            return None
        loop = self.domains[value]
        return ir.is_zero(loop.min) and ir.expr_deep_equal(loop.extent, extent)


_Side: TypeAlias = Callable[[ir.IterVar, ir.PrimExpr], Division]


def _all_outer(iter_var: ir.IterVar, value: ir.PrimExpr) -> Division:
    return Division(Part(domain_of(iter_var).extent, value), _unit(iter_var.var.dtype))


def _all_inner(iter_var: ir.IterVar, value: ir.PrimExpr) -> Division:
    return Division(_unit(iter_var.var.dtype), Part(domain_of(iter_var).extent, value))


def _unit(dtype: ir.DType) -> Part:
    return Part(ir.const(1, dtype), ir.const(0, dtype))


@dataclass(frozen=True)
class _Digit:
    """A loop, or the part `loop // lower % extent` of a fused one, in a mixed-radix number."""

    value: ir.PrimExpr
    loop: ir.Var
    lower: int
    extent: int
    scale: int

    @property
    def is_part(self) -> bool:
        return self.value is not self.loop


def _divide_digits(
    digits: Sequence[_Digit], inner_loops: set[ir.Var], dtype: ir.DType
) -> Division | None:
    """`i_0 * 16 + i_1`, where the last digits are those of the inner loops."""
    weight, at = 1, len(digits)
    inner_extent = 0
    for position in reversed(range(len(digits))):
        digit = digits[position]
        if digit.extent == 1 or digit.scale != weight:
            return None
        weight *= digit.extent
        if digit.loop in inner_loops:
            if position != at - 1:
                return None
            at = position
            inner_extent = weight
    if not inner_extent:
        return None
    return Division(
        Part(ir.const(weight // inner_extent, dtype), _number(digits[:at], inner_extent)),
        Part(ir.const(inner_extent, dtype), _number(digits[at:], 1)),
    )


def _digits_of(value: ir.PrimExpr, domains: Mapping[ir.Var, ir.Range]) -> list[_Digit]:
    """The digits of a sum, most significant first; none if it is no such sum."""
    digits = []
    for term in _terms(value):
        scale, digit = 1, term
        if isinstance(term, ir.Mul) and isinstance(term.b, ir.IntImm):
            scale, digit = term.b.value, term.a
        if (found := _digit(digit, scale, domains)) is None:
            return []
        digits.append(found)
    return digits


def _terms(value: ir.PrimExpr) -> list[ir.PrimExpr]:
    return [*_terms(value.a), *_terms(value.b)] if isinstance(value, ir.Add) else [value]


def _digit(value: ir.PrimExpr, scale: int, domains: Mapping[ir.Var, ir.Range]) -> _Digit | None:
    lower, extent, rest = 1, 0, value
    if isinstance(rest, ir.FloorMod) and isinstance(rest.b, ir.IntImm):
        extent, rest = rest.b.value, rest.a
    if isinstance(rest, ir.FloorDiv) and isinstance(rest.b, ir.IntImm):
        lower, rest = rest.b.value, rest.a
    domain = domains.get(rest) if type(rest) is ir.Var else None
    if domain is None or not ir.is_zero(domain.min) or not isinstance(domain.extent, ir.IntImm):
        return None
    assert isinstance(rest, ir.Var)
    whole = domain.extent.value
    # A part that is cut off by the end of its loop is no digit.
    if lower <= 0 or extent < 0 or whole % (lower * extent or lower):
        return None
    return _Digit(value, rest, lower, extent or whole // lower, scale)


def _number(digits: Sequence[_Digit], divisor: int) -> ir.PrimExpr:
    total: ir.PrimExpr | None = None
    for digit in digits:
        scale = digit.scale // divisor
        term: ir.PrimExpr = digit.value if scale == 1 else digit.value * scale
        total = term if total is None else total + term
    assert total is not None
    return total


def _are_independent(values: Sequence[ir.PrimExpr], all_digits: Sequence[Sequence[_Digit]]) -> bool:
    """True if no part of a loop stands in two places."""
    parts: dict[ir.Var, list[tuple[int, int]]] = {}
    for value, digits in zip(values, all_digits, strict=True):
        if not digits and not isinstance(value, ir.IntImm):
            return False
        for digit in digits:
            used = parts.setdefault(digit.loop, [])
            used.append((digit.lower, digit.lower * digit.extent))
    return all(
        first[1] <= second[0]
        for used in parts.values()
        for first, second in itertools.pairwise(sorted(used))
    )
