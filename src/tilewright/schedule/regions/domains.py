"""Iterations of a block that are needed for given regions of its buffers.

`solve` inverts the accesses of a block: from what is required of a buffer to the domains of the
block's iterators. `make_nest` turns domains into loops around the block, with a predicate where an
iteration might leave the iterator's own domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright import arith, ir
from tilewright.errors import ArithError
from tilewright.schedule.regions.relaxed import (
    Box,
    Dimension,
    NotASum,
    SumSpan,
    Surroundings,
    compact,
    interval_of,
)
from tilewright.schedule.state import Domains, Exprs
from tilewright.schedule.state.scope import iterator_domains
from tilewright.schedule.state.splice import loop_nest

Solution: TypeAlias = dict[ir.Var, Dimension]


class CannotInvert(Exception):
    """An access from which the iterations cannot be read off; `args[0]` is its index."""


def solve(
    block: ir.Block, accessed: ir.BufferRegion, required: Box, place: Surroundings, *, strict: bool
) -> Solution:
    """Domains of iterators that make `accessed` touch all of `required`.

    Iterators that are not mentioned may take any value. With `strict`, an index that cannot be
    inverted is an error; else it says nothing about its iterators.
    """
    iterators = iterator_domains(block)
    if (plain := _plain(accessed, required, iterators)) is not None:
        return plain
    inverted = _by_inverse_map(accessed, required, iterators, place.analyzer)
    if inverted is not None:
        return inverted
    return _by_patterns(accessed, required, iterators, place.analyzer, strict=strict)


def _plain(accessed: ir.BufferRegion, required: Box, iterators: Domains) -> Solution | None:
    """Indices that are different iterators, or constants."""
    found: Solution = {}
    for item, dimension in zip(accessed.region, required, strict=True):
        index = item.min
        if not _at_most(item, 1):
            return None
        if type(index) is ir.IntImm:
            continue
        if not isinstance(index, ir.Var) or index in found or index not in iterators:
            return None
        found[index] = dimension
    return found


def _by_inverse_map(
    accessed: ir.BufferRegion, required: Box, iterators: Domains, analyzer: arith.Analyzer
) -> Solution | None:
    """Indices that together are a one-to-one affine map of the iterators they use."""
    if not all(_at_most(item, 1) for item in accessed.region):
        return None
    indices = [item.min for item in accessed.region]
    used = {
        var: dom
        for var, dom in iterators.items()
        if any(ir.uses_var(index, var.same_as) for index in indices)
    }
    found = arith.detect_iter_map(indices, used, ir.TRUE, arith.IterMapLevel.BIJECTIVE)
    if found.errors:
        return None
    outputs = [ir.Var(f"d{axis}", index.dtype) for axis, index in enumerate(indices)]
    try:
        inverse = arith.inverse_affine_iter_map(found.indices, outputs)
    except ArithError:
        return None
    box = {var: interval_of(dim) for var, dim in zip(outputs, required, strict=True)}
    return {
        var: compact(arith.eval_set(value, box, analyzer), analyzer)
        for var, value in inverse.items()
    }


def _by_patterns(
    accessed: ir.BufferRegion,
    required: Box,
    iterators: Domains,
    analyzer: arith.Analyzer,
    *,
    strict: bool,
) -> Solution:
    """Each dimension by itself: `v`, `v * c` and `v // c`."""
    found: Solution = {}
    for item, dimension in zip(accessed.region, required, strict=True):
        if not ir.uses_var(item.min, iterators.__contains__):
            continue
        if (match := _match_pattern(item, dimension, analyzer)) is None:
            if strict:
                raise CannotInvert(item.min)
        elif match[0] not in found and match[0] in iterators:
            found[match[0]] = match[1]
    return found


def _match_pattern(
    item: ir.Range, dimension: Dimension, analyzer: arith.Analyzer
) -> tuple[ir.Var, Dimension] | None:
    interval = interval_of(dimension)
    match item.min:
        case ir.Var() as var if _at_most(item, 1):
            return var, dimension
        case ir.Mul(a=ir.Var() as var, b=ir.IntImm(value=step)) if step > 0 and _at_most(
            item, step
        ):
            low, high = ir.floordiv(interval.min_value, step), ir.floordiv(interval.max_value, step)
            return var, compact(arith.IntervalSet(low, high), analyzer)
        case ir.FloorDiv(a=ir.Var() as var, b=ir.IntImm(value=step)) if step > 0 and _at_most(
            item, 1
        ):
            low, last = interval.min_value * step, interval.max_value * step + (step - 1)
            return var, compact(arith.IntervalSet(low, last), analyzer)
    return None


def _at_most(item: ir.Range, limit: int) -> bool:
    return type(item.extent) is ir.IntImm and item.extent.value <= limit


def unite(solutions: Sequence[Solution], place: Surroundings) -> Solution:
    """Domains that serve several purposes; an iterator that one leaves open stays open."""
    first, *others = solutions
    if not others:
        return first
    result: Solution = {}
    analyzer = place.analyzer
    for var, dimension in first.items():
        dims = [dimension, *(other[var] for other in others if var in other)]
        if len(dims) == len(solutions):
            result[var] = compact(
                arith.union([interval_of(dim) for dim in dims], analyzer), analyzer
            )
    return result


@dataclass(frozen=True)
class IteratorDomain:
    """The values an iterator is to take: `low` and the following; `guards` where some may not."""

    low: ir.PrimExpr
    extent: ir.PrimExpr
    bound: arith.IntervalSet | None = None


def clip(bound: ir.Range, wanted: Dimension | None, outer: Surroundings) -> IteratorDomain:
    """What is wanted of an iterator, limited to its own values."""
    if wanted is None:
        return IteratorDomain(bound.min, bound.extent)
    quick = _clip_constants(bound, wanted, outer)
    return quick if quick is not None else _clip_proven(bound, wanted, outer)


def _clip_constants(
    bound: ir.Range, wanted: Dimension, outer: Surroundings
) -> IteratorDomain | None:
    if not isinstance(wanted, SumSpan):
        return None
    begin, extent = bound.min, bound.extent
    if type(begin) is not ir.IntImm or type(extent) is not ir.IntImm:
        return None
    try:
        low, high = outer.bounds(wanted.terms)
    except NotASum:
        return None
    first, end = begin.value, begin.value + extent.value
    if low + wanted.offset >= first and high + wanted.offset + wanted.extent <= end:
        return IteratorDomain(wanted.low(), ir.const(wanted.extent, wanted.dtype))
    if high + wanted.offset <= first and low + wanted.offset + wanted.extent >= end:
        return IteratorDomain(begin, extent)
    return None


def _clip_proven(bound: ir.Range, wanted: Dimension, outer: Surroundings) -> IteratorDomain:
    analyzer = outer.analyzer
    own = arith.IntervalSet.from_range(bound)
    interval = interval_of(wanted)
    if not (interval.has_lower_bound and interval.has_upper_bound):
        return IteratorDomain(bound.min, bound.extent)
    low, high = analyzer.simplify(interval.min_value), analyzer.simplify(interval.max_value)
    starts_inside = analyzer.can_prove(low >= own.min_value)
    ends_inside = analyzer.can_prove(high <= own.max_value)
    extent = analyzer.simplify(ir.add(ir.subtract(high, low), 1))
    if starts_inside and ends_inside:
        return IteratorDomain(low, extent)
    if analyzer.can_prove(low <= own.min_value) and analyzer.can_prove(high >= own.max_value):
        return IteratorDomain(bound.min, bound.extent)
    return IteratorDomain(low, extent, own)


def make_nest(
    block: ir.Block,
    domains: Sequence[IteratorDomain],
    outer: Surroundings,
    *,
    preserve_unit_loops: bool,
) -> tuple[ir.Stmt, ir.BlockRealize, list[ir.For]]:
    """Loops `ax0`, `ax1`, ... over the domains around `block`; also the realize and bare loops."""
    values: list[ir.PrimExpr] = []
    loops: list[tuple[ir.Var, ir.PrimExpr]] = []
    for iter_var, domain in zip(block.iter_vars, domains, strict=True):
        is_unit = type(domain.extent) is ir.IntImm and domain.extent.value == 1
        if is_unit and not preserve_unit_loops:
            values.append(domain.low)
            continue
        var = ir.Var(f"ax{len(loops)}", iter_var.var.dtype)
        loops.append((var, domain.extent))
        starts_at_zero = type(domain.low) is ir.IntImm and domain.low.value == 0
        values.append(var if starts_at_zero else ir.Add(domain.low, var))
    nest: list[ir.For] = []
    body: ir.Stmt = ir.BlockRealize((), ir.TRUE, block)
    for var, extent in loops:
        nest.append(ir.For(var, ir.const(0, var.dtype), extent, ir.ForKind.SERIAL, body))
    predicate = _guards(values, domains, Surroundings([*outer.loops, *nest]))
    realize = ir.BlockRealize(tuple(values), predicate, block)
    return loop_nest(loops, realize), realize, nest


def _guards(values: Exprs, domains: Sequence[IteratorDomain], place: Surroundings) -> ir.PrimExpr:
    """What must hold for iterators to stay among their own values."""
    guards: list[ir.PrimExpr] = []
    for value, domain in zip(values, domains, strict=True):
        if domain.bound is not None:
            low, high = domain.bound.min_value, domain.bound.max_value
            guards += [ir.greater_equal(value, low), ir.less(value, high + 1)]
    open_ones = [guard for guard in guards if not place.analyzer.can_prove(guard)]
    return ir.logical_and(*(place.analyzer.simplify(guard) for guard in open_ones))
