"""Dividing the iterators of a block between the loops around it and the loops inside.

Every iterator becomes an outer and an inner one, `v = v_o * inner extent + v_i`; those with a
single value are left out of the block that does not need them. This is what `blockize` is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.arith import (
    Analyzer,
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    normalize_iter_map_to_expr,
    subspace_divide,
)
from tilewright.ir import (
    TRUE,
    Add,
    BlockRealize,
    DType,
    IntImm,
    IterVar,
    Mul,
    PrimExpr,
    Range,
    Var,
    cast,
    const,
    logical_and,
    uses_var,
)
from tilewright.schedule.predicates import conjuncts


@dataclass(frozen=True)
class Part:
    """One iterator of the outer or inner block and what it is bound to."""

    extent: PrimExpr
    value: PrimExpr

    @property
    def is_unit(self) -> bool:
        return isinstance(self.extent, IntImm) and self.extent.value == 1


@dataclass(frozen=True)
class Division:
    """An iterator divided: `offset + outer * inner.extent + inner`."""

    outer: Part
    inner: Part
    offset: PrimExpr | None = None


@dataclass(frozen=True)
class DividedBindings:
    """All iterators of a block divided, and the two halves of its predicate."""

    divisions: tuple[Division, ...]
    outer_predicate: PrimExpr
    inner_predicate: PrimExpr


def divide_bindings(
    realize: BlockRealize,
    domains: Mapping[Var, Range],
    inner_loops: set[Var],
    *,
    preserve_unit_iters: bool,
) -> DividedBindings | None:
    """The bindings of a block divided; None if outer and inner loops mix in them."""
    unguarded = isinstance(realize.predicate, IntImm) and bool(realize.predicate.value)
    if unguarded and preserve_unit_iters:
        simple = _divide_simple(realize, domains, inner_loops)
        if simple is not None:
            return simple
    marks = subspace_divide(
        realize.iter_values,
        domains,
        inner_loops,
        realize.predicate,
        IterMapLevel.SURJECTIVE,
        not preserve_unit_iters,
    )
    if not marks:
        return _divide_simple(realize, domains, inner_loops) if unguarded else None
    *pairs, (outer_condition, inner_condition) = marks
    divisions = []
    for iter_var, value, pair in zip(
        realize.block.iter_vars, realize.iter_values, pairs, strict=True
    ):
        if isinstance(value, IntImm):  # a constant belongs to the outer block, whatever it is
            divisions.append(_all_outer(iter_var, value))
        else:
            divisions.append(_division_of(*pair, iter_var.var.dtype))
    found = (outer_condition.extent, inner_condition.extent)
    predicates = found if unguarded else _with_lost_parts(realize, domains, inner_loops, *found)
    return None if predicates is None else DividedBindings(tuple(divisions), *predicates)


def _with_lost_parts(
    realize: BlockRealize,
    domains: Mapping[Var, Range],
    inner_loops: set[Var],
    outer: PrimExpr,
    inner: PrimExpr,
) -> tuple[PrimExpr, PrimExpr] | None:
    """Add what the two predicates do not say of the block's own; None if it fits neither.

    The division knows of a bound on a single loop, and drops it: its iterators are shorter than
    the loops, which go on running as far as they did.
    """
    analyzer = Analyzer()
    analyzer.bind_all(domains)
    with analyzer.constraint_scope(logical_and(outer, inner)):
        lost = [part for part in conjuncts(realize.predicate) if not analyzer.can_prove(part)]
    for part in lost:
        simple = analyzer.simplify(part)
        if not uses_var(simple, inner_loops.__contains__):
            outer = logical_and(outer, simple)
        elif not uses_var(simple, lambda var: var in domains and var not in inner_loops):
            inner = logical_and(inner, simple)
        else:
            return None
    return outer, inner


def _division_of(outer: IterMark, inner: IterMark, dtype: DType) -> Division:
    """Iterators start at zero; what the bindings add to them goes into the body."""
    outer_value, outer_base = _without_base(outer.source, dtype)
    inner_value, inner_base = _without_base(inner.source, dtype)
    extent = cast(dtype, inner.extent)
    offset: PrimExpr | None = None
    if outer_base is not None or inner_base is not None:
        zero = const(0, dtype)
        offset = (zero if outer_base is None else outer_base) * extent
        offset = offset + (zero if inner_base is None else inner_base)
    return Division(Part(cast(dtype, outer.extent), outer_value), Part(extent, inner_value), offset)


def _without_base(source: PrimExpr, dtype: DType) -> tuple[PrimExpr, PrimExpr | None]:
    """The value of an iterator mark that starts at zero, and where it really starts."""
    if isinstance(source, IterSumExpr) and not _is_zero(source.base):
        return _plain(IterSumExpr(source.args, const(0, dtype)), dtype), source.base
    return _plain(source, dtype), None


def _plain(source: PrimExpr, dtype: DType) -> PrimExpr:
    """The value of an iterator mark as an ordinary expression."""
    if isinstance(source, (IterSumExpr, IterSplitExpr)):
        return cast(dtype, normalize_iter_map_to_expr(source))
    return source


def _divide_simple(
    realize: BlockRealize, domains: Mapping[Var, Range], inner_loops: set[Var]
) -> DividedBindings | None:
    """Without iterator maps: each binding belongs to one side or is a plain mixed-radix number."""
    divisions: list[Division] = []
    for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        division = _divide_binding(iter_var, value, domains, inner_loops)
        if division is None:
            return None
        divisions.append(division)
    return DividedBindings(tuple(divisions), TRUE, TRUE)


def _divide_binding(
    iter_var: IterVar, value: PrimExpr, domains: Mapping[Var, Range], inner_loops: set[Var]
) -> Division | None:
    if type(value) is Var:
        return _all_inner(iter_var, value) if value in inner_loops else _all_outer(iter_var, value)
    if not uses_var(value, inner_loops.__contains__):
        return _all_outer(iter_var, value)
    if not uses_var(value, lambda var: var in domains and var not in inner_loops):
        return _all_inner(iter_var, value)
    return _divide_digits(value, domains, inner_loops)


def _all_outer(iter_var: IterVar, value: PrimExpr) -> Division:
    return Division(Part(extent_of(iter_var), value), _unit(iter_var.var.dtype))


def _all_inner(iter_var: IterVar, value: PrimExpr) -> Division:
    return Division(_unit(iter_var.var.dtype), Part(extent_of(iter_var), value))


def _unit(dtype: DType) -> Part:
    return Part(const(1, dtype), const(0, dtype))


def extent_of(iter_var: IterVar) -> PrimExpr:
    """The number of values of a block iterator."""
    assert iter_var.dom is not None
    return iter_var.dom.extent


def _divide_digits(
    value: PrimExpr, domains: Mapping[Var, Range], inner_loops: set[Var]
) -> Division | None:
    """`i_0 * 16 + i_1`, where each digit is a loop and the last ones are the inner loops."""
    digits: list[tuple[Var, int]] = []
    if not _collect_digits(value, digits):
        return None
    weight, at = 1, len(digits)
    inner_extent = 0
    for position in reversed(range(len(digits))):
        variable, scale = digits[position]
        extent = domains[variable].extent if variable in domains else None
        if not isinstance(extent, IntImm) or extent.value == 1 or scale != weight:
            return None
        if not _is_zero(domains[variable].min):
            return None
        if variable in inner_loops:
            if position != at - 1:
                return None
            at = position
            inner_extent = weight * extent.value
        weight *= extent.value
    dtype = value.dtype
    outer = [(variable, scale // inner_extent) for variable, scale in digits[:at]]
    return Division(
        Part(const(weight // inner_extent, dtype), _number(outer)),
        Part(const(inner_extent, dtype), _number(digits[at:])),
    )


def _collect_digits(value: PrimExpr, digits: list[tuple[Var, int]]) -> bool:
    if isinstance(value, Add):
        return _collect_digits(value.a, digits) and _collect_digits(value.b, digits)
    if isinstance(value, Var):
        digits.append((value, 1))
        return True
    if isinstance(value, Mul) and isinstance(value.a, Var) and isinstance(value.b, IntImm):
        digits.append((value.a, value.b.value))
        return True
    return False


def _number(digits: Sequence[tuple[Var, int]]) -> PrimExpr:
    total: PrimExpr | None = None
    for variable, scale in digits:
        term: PrimExpr = variable if scale == 1 else variable * scale
        total = term if total is None else total + term
    assert total is not None
    return total


def _is_zero(expr: PrimExpr) -> bool:
    return isinstance(expr, IntImm) and expr.value == 0
