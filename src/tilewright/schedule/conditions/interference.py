"""Decides from what loop nests touch in an iteration whether they may be interleaved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright import arith, ir
from tilewright.schedule.state import Domains


@dataclass(frozen=True)
class TouchedRegion:
    """A region that a statement touches while the loops inside it run; None: unknown."""

    buffer: ir.Buffer
    region: tuple[ir.Range | None, ...]
    is_write: bool


def accesses_of(stmt: ir.Stmt) -> list[TouchedRegion]:
    """What the blocks of a statement touch, in terms of the loops around it."""
    outside = ir.with_loops(stmt, into=lambda node: not isinstance(node, ir.BlockRealize))
    return [
        TouchedRegion(region.buffer, _relaxed(ir.substitute(region, each.values), loops), is_write)
        for each, loops in outside
        if isinstance(each, ir.BlockRealize)
        for regions, is_write in ((each.block.reads, False), (each.block.writes, True))
        for region in regions
    ]


def _relaxed(region: ir.BufferRegion, loops: Iterable[ir.For]) -> tuple[ir.Range | None, ...]:
    analyzer, domains = arith.Analyzer(), {loop.loop_var: loop.domain for loop in loops}
    bounds = arith.estimate_region_upper_bound(region.region, domains, analyzer=analyzer)
    ranges = [
        arith.to_range(bound, analyzer) if bound.has_lower_bound and bound.has_upper_bound else None
        for bound in bounds
    ]
    # Bounds of loops that others run up to may still name these.
    return tuple(
        None if axis is None or ir.uses_var(axis, domains.__contains__) else axis for axis in ranges
    )


def conflicts(
    first: Sequence[TouchedRegion], second: Sequence[TouchedRegion]
) -> list[tuple[TouchedRegion, TouchedRegion]]:
    """Pairs that touch one buffer, at least one of them writing."""
    return [
        (a, b) for a in first for b in second if a.buffer is b.buffer and (a.is_write or b.is_write)
    ]


def stays_within_iteration(a: TouchedRegion, b: TouchedRegion, domains: Domains) -> bool:
    """True when two accesses can only meet in the same iteration of the loops `domains`."""
    positions: list[ir.PrimExpr] = []
    for one, other in zip(a.region, b.region, strict=True):
        if one is None or other is None or not ir.expr_deep_equal(one, other):
            continue
        if isinstance(one.extent, ir.IntImm):
            positions.append(ir.floordiv(one.min, one.extent))
    moving = {var: domain for var, domain in domains.items() if not ir.is_one(domain.extent)}
    if not moving:
        return True
    found = arith.detect_iter_map(positions, moving, True, arith.IterMapLevel.BIJECTIVE)
    return bool(positions) and not found.errors
