"""Loops whose iterations each touch a slice of their own of what they read and write.

A block that reads what it writes (a scan, an update in place) is neither complete nor a reduction,
so that nothing is known of the order in which its iterations may run. Where one index of all
accesses to such a buffer is the same iterator, its values still cannot meet: rows of a scan along
columns, for example.

A block without iterators says by its regions what it touches; where these are tiles of equal size,
numbered by loops, iterations with different numbers cannot meet either.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import arith, ir
from tilewright.schedule.conditions.checks import has_affine_binding
from tilewright.schedule.state import Domains, ScheduleState, StmtSRef
from tilewright.schedule.state.scope import domains_of


def free_positions(block: ir.Block) -> list[int]:
    """The spatial iterators of a block, by position, along which its iterations never meet.

    Each of them is an index, on one axis, of all accesses to every buffer that the block writes.
    """
    regions = [*block.reads, *block.writes]
    updated = [
        [region for region in regions if region.buffer is written.buffer]
        for written in block.writes
    ]
    return [
        position
        for position, iter_var in enumerate(block.iter_vars)
        if iter_var.iter_type is ir.IterType.DATA_PAR
        and all(_has_own_index(own, iter_var.var) for own in updated)
    ]


def _has_own_index(regions: Sequence[ir.BufferRegion], var: ir.Var) -> bool:
    """True when a variable is the index of all regions of a buffer on one of its axes."""
    axes = zip(*(region.region for region in regions), strict=True)
    return any(all(_element(each) is var for each in axis) for axis in axes)


def _element(axis: ir.Range) -> ir.PrimExpr | None:
    """The only index of a region on an axis."""
    return axis.min if ir.is_one(axis.extent) else None


def touches_own_slices(state: ScheduleState, loop: StmtSRef, blocks: Sequence[StmtSRef]) -> bool:
    """True when no iteration of a loop touches what some blocks write in another one."""
    accesses = [(r, block) for block in blocks for r in (*block.block.reads, *block.block.writes)]
    written = {region.buffer for block in blocks for region in block.block.writes}
    return all(has_affine_binding(state, block) for block in blocks) and all(
        _is_cut_by(loop.loop.loop_var, [(r, block) for r, block in accesses if r.buffer is buffer])
        for buffer in written
    )


def _is_cut_by(variable: ir.Var, accesses: Sequence[tuple[ir.BufferRegion, StmtSRef]]) -> bool:
    """True when a loop decides which elements of a buffer are touched, on axes that all share."""
    axes = range(len(accesses[0][0].region))
    shared = [
        values[0]
        for values in ([_bound_index(r.region[n], block) for r, block in accesses] for n in axes)
        if values[0] is not None and all(_is_same(value, values[0]) for value in values)
    ]
    values = [value for _, block in accesses for value in block.realize.iter_values]
    decided = [value for value in values if ir.uses_var(value, variable.same_as)]
    return bool(decided) and all(any(_is_same(value, each) for each in shared) for value in decided)


def _is_same(value: ir.PrimExpr | None, other: ir.PrimExpr) -> bool:
    return value is not None and ir.expr_deep_equal(value, other)


def _bound_index(axis: ir.Range, block: StmtSRef) -> ir.PrimExpr | None:
    """What the iterator that is the index of an element on an axis is bound to."""
    index = _element(axis)
    return block.realize.values.get(index) if isinstance(index, ir.Var) else None


def writes_own_tiles(loop: StmtSRef, block: StmtSRef) -> bool:
    """True when a block without iterators writes other elements in each iteration of a loop."""
    inside = [sref.loop for sref in block.loops if loop.holds(sref)]
    domains = domains_of(inside)
    analyzer = arith.Analyzer(domains)
    return not block.block.iter_vars and all(
        _tells_apart(loop.loop.loop_var, _tile_numbers(region, analyzer), domains)
        for region in block.block.writes
    )


def _tile_numbers(region: ir.BufferRegion, analyzer: arith.Analyzer) -> list[ir.PrimExpr]:
    """The numbers of a tile along the axes on which tiles of its size stand side by side."""
    numbers = []
    for axis in region.region:
        if not isinstance(axis.extent, ir.IntImm) or axis.extent.value < 1:
            continue
        if analyzer.can_prove_equal(axis.min % axis.extent, ir.const(0, axis.min.dtype)):
            numbers.append(analyzer.simplify(axis.min // axis.extent))
    return numbers


def _tells_apart(variable: ir.Var, numbers: list[ir.PrimExpr], domains: Domains) -> bool:
    """True when different values of a loop never give the same numbers."""
    moving = [number for number in numbers if ir.uses_var(number, domains.__contains__)]
    used = {
        v: dom
        for v, dom in domains.items()
        if any(ir.uses_var(number, v.same_as) for number in moving)
    }
    found = arith.detect_iter_map(moving, used, ir.TRUE, arith.IterMapLevel.BIJECTIVE)
    return variable in used and not found.errors
