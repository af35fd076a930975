"""Places of cache stages in their scopes, and the regions they copy there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import arith, ir
from tilewright.arith.affine import Bound
from tilewright.arith.interval import EVERYTHING
from tilewright.arith.ranges import RangeEvaluator
from tilewright.schedule.conditions.checks import all_loops_above, has_affine_binding
from tilewright.schedule.regions.relaxed import points_at
from tilewright.schedule.state import ScheduleState, StmtSRef
from tilewright.schedule.state.scope import (
    DEFINITIONS,
    domain_of,
    domains_of,
    holds_leaf,
    iterator_domains,
    loops_between,
)
from tilewright.schedule.state.sref import upwards


@dataclass(frozen=True)
class CachePlace:
    """Where a statement goes: before (or after) `anchor`, or first (or last) in the scope."""

    location: StmtSRef  # the loop or block whose iterations each run the statement
    anchor: ir.Stmt | None = None
    at_end: bool = False
    siblings: ir.SeqStmt | None = None  # what holds the anchor, if it is not alone

    @property
    def surroundings(self) -> ir.Stmt:
        """The statement that runs whenever a statement at this place does."""
        return self.location.body if self.siblings is None else self.siblings


def place_first(scope: StmtSRef, buffer: ir.Buffer) -> CachePlace:
    """Before everything in a scope that can touch a buffer: where it is defined, or at the top."""
    found = [
        node.body
        for node in ir.walk_statements(scope.block.body, into=lambda n: not isinstance(n, ir.Block))
        if isinstance(node, DEFINITIONS)
        and (
            getattr(node, "buffer_var", None) is buffer.data
            or getattr(node, "buffer", None) is buffer
        )
    ]
    return CachePlace(scope, ir.statements_of(found[-1])[0]) if found else CachePlace(scope)


def place_before(location: StmtSRef, earlier: StmtSRef, later: StmtSRef) -> CachePlace:
    """Between two blocks below `location`, their lowest common ancestor, right before `later`."""
    body = location.body
    while True:
        if isinstance(body, ir.SeqStmt):
            siblings, body = body, next(item for item in body.seq if holds_leaf(item, later.stmt))
            if not holds_leaf(body, earlier.stmt):
                return CachePlace(location, body, siblings=siblings)
        else:
            inside = ir.statements_in(body)
            body = next(child for child in inside if holds_leaf(child, later.stmt))


@dataclass(frozen=True)
class RelaxedRegion:
    """What a block touches while the loops between it and some location run."""

    ranges: tuple[ir.Range, ...]
    is_exact: bool  # every element in it is touched


def relaxed_region(
    state: ScheduleState,
    block: StmtSRef,
    region: ir.BufferRegion,
    place: CachePlace,
    threads: Sequence[ir.For] = (),
) -> RelaxedRegion:
    """The box that a region of a block sweeps until a place is reached, inside its buffer.

    `threads` are loops further out that are swept as well: those that share the box.
    """
    realize, location = block.realize, place.location
    always = is_reached_freely(place.surroundings, realize)
    domains = {**domains_of(threads), **domains_between(block, location)}
    if location.is_block and has_affine_binding(state, block):
        whole = _iterator_domains(realize.block, region)
        if whole is not None and takes_all_values(realize, domains):
            return RelaxedRegion(whole, always)
    bound = ir.substitute(region, realize.values)
    # Unit loops stay in the bounds, as in TVM, so these know nothing of the loops above.
    exact = arith.estimate_region_strict_bound(bound.region, domains, realize.predicate)
    found = exact or arith.estimate_region_upper_bound(bound.region, domains, realize.predicate)
    if any(ir.uses_var(domain, domains.__contains__) for domain in domains.values()):
        exact = None  # loops that others run up to: not all combinations, and bounds may name them
        moves = [ir.uses_var(each, domains.__contains__) for each in found]
        found = [EVERYTHING if m else each for each, m in zip(found, moves, strict=True)]
    analyzer = _analyzer_above(location)
    ranges = tuple(
        _clipped(interval, extent, analyzer)
        for interval, extent in zip(found, region.buffer.shape, strict=True)
    )
    always = always and not _is_switched_from_above(realize.predicate, bound, domains)
    return RelaxedRegion(ranges, exact is not None and always)


def _is_switched_from_above(
    predicate: ir.PrimExpr, region: ir.BufferRegion, domains: dict[ir.Var, ir.Range]
) -> bool:
    """True when a guard may leave nothing of the region in some iterations of loops above.

    Guards over loops that the region follows are a matter of its bounds.
    """
    followed = {var for axis in region.region for var in ir.free_vars(axis.min) if var in domains}
    return any(
        ir.uses_var(part, lambda var: var not in domains)
        and not ir.uses_var(part, followed.__contains__)
        for part in ir.conjuncts(predicate)
    )


def is_fixed_box(place: CachePlace, ranges: Sequence[ir.Range]) -> bool:
    """True when a region is one box for a whole block, which knows where that lies."""
    if not place.location.is_block:
        return False
    loops = all_loops_above(place.location)
    return not any(ir.uses_var(axis, loops.__contains__) for axis in ranges)


def domains_between(block: StmtSRef, location: StmtSRef) -> dict[ir.Var, ir.Range]:
    """The loops around a block that lie below `location`, outermost first."""
    return domains_of(loops_between(block, location))


def _iterator_domains(block: ir.Block, region: ir.BufferRegion) -> tuple[ir.Range, ...] | None:
    """The region over all iterations, where each index is an iterator of its own or constant."""
    domains = {iter_var.var: iter_var.dom for iter_var in block.iter_vars}
    ranges = []
    for axis in region.region:
        if not ir.is_one(axis.extent):
            return None
        if isinstance(axis.min, ir.IntImm):
            ranges.append(axis)
            continue
        domain = domains.pop(axis.min, None) if isinstance(axis.min, ir.Var) else None
        if domain is None:
            return None
        ranges.append(domain)
    return tuple(ranges)


def takes_all_values(realize: ir.BlockRealize, loops: dict[ir.Var, ir.Range]) -> bool:
    """True when the bindings, known to leave no gaps, span the domains of the iterators.

    Those of a part of a program, such as what `loop_partition` makes, do not.
    """
    if not ir.is_true(realize.predicate):
        return _takes_all_allowed(realize, loops)
    known = {var: bounds for var, dom in loops.items() if (bounds := _bounds(dom)) is not None}
    spans = _Spans(known, _unknown)
    for iter_var, value in realize.bindings:
        domain = domain_of(iter_var)
        loop = loops.get(value) if isinstance(value, ir.Var) else None
        if loop is not None and ir.expr_deep_equal(loop, domain):
            continue
        wanted = _bounds(domain)
        try:
            low, high = spans.of(value)
        except _Unknown:
            return False
        if wanted is None or low > wanted[0] or high < wanted[1]:
            return False
    return True


def _takes_all_allowed(realize: ir.BlockRealize, loops: dict[ir.Var, ir.Range]) -> bool:
    """The same under a predicate, which may leave out values."""
    spans = arith.estimate_region_strict_bound(
        points_at(realize.iter_values), loops, realize.predicate
    )
    return spans is not None and arith.covers(spans, list(iterator_domains(realize.block).values()))


class _Unknown(Exception):
    """Values that need not all be taken."""


def _unknown(expr: ir.PrimExpr) -> Bound:
    raise _Unknown


class _Spans(RangeEvaluator):
    """The smallest and the largest number that loops make of an expression, which it does take."""

    def of_var(self, var: ir.Var) -> Bound:
        return self.ranges[var] if var in self.ranges else _unknown(var)

    def of_remainder(self, dividend: ir.PrimExpr, divisor: int) -> Bound:
        low, high = self.of(dividend)
        return (0, min(high, divisor - 1)) if low == 0 else _unknown(dividend)


def _bounds(domain: ir.Range) -> tuple[int, int] | None:
    if not (isinstance(domain.min, ir.IntImm) and isinstance(domain.extent, ir.IntImm)):
        return None
    return domain.min.value, domain.min.value + domain.extent.value - 1


def is_reached_freely(stmt: ir.Stmt, realize: ir.BlockRealize) -> bool:
    """True when nothing but loops and sequences decides whether the block runs."""
    if stmt is realize:
        return True
    if isinstance(stmt, (ir.For, *DEFINITIONS)):
        return is_reached_freely(stmt.body, realize)
    return isinstance(stmt, ir.SeqStmt) and any(
        is_reached_freely(item, realize) for item in stmt.seq
    )


def _analyzer_above(location: StmtSRef) -> arith.Analyzer:
    """An analyzer that knows the loops and block iterators that hold at a location."""
    analyzer = arith.Analyzer()
    for node in upwards(location):
        is_block = node.is_block
        analyzer.bind_all(iterator_domains(node.block) if is_block else domains_of([node.loop]))
    return analyzer


def hull(boxes: Sequence[Sequence[ir.Range]]) -> tuple[ir.Range, ...]:
    """The smallest box around several."""
    first = boxes[0]
    if all(ir.written_alike(box, first) for box in boxes[1:]):
        return tuple(first)
    analyzer = arith.Analyzer()
    intervals = [[arith.eval_set(axis, {}, analyzer) for axis in box] for box in boxes]
    return tuple(arith.to_range(axis, analyzer) for axis in arith.region_union(intervals, analyzer))


def inside_buffer(
    location: StmtSRef,
    buffer: ir.Buffer,
    ranges: Sequence[ir.Range],
    condition: ir.PrimExpr = ir.TRUE,
) -> tuple[ir.Range, ...]:
    """The part of a region that lies in its buffer; unchanged where that is sure to be all.

    Nobody asks for the region where `condition` does not hold.
    """
    analyzer = _analyzer_above(location)
    with analyzer.constraint_scope(condition):
        return tuple(
            axis
            if _is_inside(axis.min, axis.min + axis.extent - 1, extent, analyzer)
            else _clipped(arith.eval_set(axis, {}, analyzer), extent, analyzer)
            for axis, extent in zip(ranges, buffer.shape, strict=True)
        )


def _is_inside(
    low: ir.PrimExpr, high: ir.PrimExpr, extent: ir.PrimExpr, analyzer: arith.Analyzer
) -> bool:
    return analyzer.can_prove(low >= 0) and analyzer.can_prove(high < extent)


def _clipped(
    interval: arith.IntervalSet, extent: ir.PrimExpr, analyzer: arith.Analyzer
) -> ir.Range:
    """What lies in the buffer; nothing is never less than nothing."""
    if (
        interval.has_lower_bound
        and interval.has_upper_bound
        and _is_inside(interval.min_value, interval.max_value, extent, analyzer)
    ):
        found = arith.to_range(interval)
    else:
        inside = arith.IntervalSet(ir.const(0, extent.dtype), analyzer.simplify(extent - 1))
        common = arith.intersect([interval, inside], analyzer)
        if common.is_nothing:  # all accesses are guarded away; a cache has an element nevertheless
            return ir.Range(ir.const(0, extent.dtype), ir.const(1, extent.dtype))
        found = arith.to_range(common, analyzer)
    if isinstance(found.extent, ir.IntImm) or analyzer.can_prove(found.extent >= 0):
        return found
    return ir.Range(found.min, ir.maximum(found.extent, ir.const(0, found.extent.dtype)))
