"""Flags of the flow of data between the blocks of a scope: region cover, stage pipeline.

A block's reads are *covered* when the blocks before it write, within each iteration of the loops
they share, everything it reads there. A scope is a *stage pipeline* when that holds for all its
blocks and nobody overwrites what an earlier block reads. Then blocks may be moved along the flow.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Mapping, Sequence

from tilewright import arith, ir
from tilewright.ir.access import inputs_of
from tilewright.schedule.conditions.checks import has_affine_binding
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.regions.relaxed import (
    Box,
    RelaxedView,
    SumSpan,
    Surroundings,
    interval_of,
    points_at,
)
from tilewright.schedule.state import scope as scopes
from tilewright.schedule.state.sref import StmtSRef
from tilewright.schedule.state.state import BlockInfo, ScheduleState


class NotStagePipeline(PrimitiveError):
    reason = "the blocks under {scope!r} are not stages of a pipeline: {why}"
    remedy = "each block must read only what earlier blocks wrote completely, and overwrite nothing"


def region_cover(state: ScheduleState, block: StmtSRef) -> bool:
    """True when everything a block reads has been written where it reads it."""
    info = state.info(block)
    if info.region_cover is None:
        only = info.in_doubt
        info.region_cover = block.parent is None or compute_region_cover(state, block, only)
        info.in_doubt = None
    return info.region_cover


def is_stage_pipeline(state: ScheduleState, root: StmtSRef) -> bool:
    """True when the blocks directly under `root` can be seen as stages of a pipeline."""
    info = state.info(root)
    info.stage_pipeline = not why_no_stage_pipeline(state, root)
    return info.stage_pipeline


def check_stage_pipeline(state: ScheduleState, root: StmtSRef) -> None:
    """`root` opens a stage pipeline."""
    if not state.enable_check or is_stage_pipeline(state, root):
        return
    why = why_no_stage_pipeline(state, root)
    raise NotStagePipeline(scope=root, why=why)


def why_no_stage_pipeline(state: ScheduleState, root: StmtSRef) -> str:
    """What keeps a scope from being a stage pipeline; empty when it is one."""
    scope = state.scope_of(root)
    if (edge := scope.overwritten()) is not None:
        return f"block {edge.dst.name!r} overwrites what block {edge.src.name!r} reads"
    for block in scope.blocks:
        if not region_cover(state, block):
            return f"block {block.name!r} reads what may not have been written before"
    return ""


def compute_region_cover(
    state: ScheduleState, block: StmtSRef, only: Collection[ir.Buffer] | None = None
) -> bool:
    """Region cover from the program as it is now, of all reads or those of some buffers."""
    scope = state.scope_of(block.scope_root)
    for region in inputs_of(block.block).values():
        if only is not None and region.buffer not in only:
            continue
        producers = producers_of(scope, block, region)
        if producers and not _is_covered(state, block, region, producers):
            return False
    return True


def reads_only_its_own(state: ScheduleState, block: StmtSRef, buffer: ir.Buffer) -> bool:
    """True when what a block reads of a buffer is what blocks inside it wrote there before."""
    stmt, scope = block.block, state.scope_of(block)
    matched = any(match.source.buffer is buffer for match in stmt.match_buffers)
    if matched or stmt.init is not None or scopes.used_between_blocks(stmt.body, buffer):
        return False
    readers = scope.buffer_readers.get(buffer, [])
    writers = scope.buffer_writers.get(buffer, [])
    return bool(readers and writers) and all(
        scope.positions[writers[0]] < scope.positions[reader]
        and compute_region_cover(state, reader, [buffer])
        for reader in readers
    )


def producers_of(
    scope: scopes.BlockScope, block: StmtSRef, region: ir.BufferRegion
) -> list[StmtSRef]:
    """The blocks before `block` that write the buffer of one of its reads."""
    return [
        producer
        for producer in scope.producers(block, scopes.DepKind.RAW)
        if any(written.buffer is region.buffer for written in producer.block.writes)
    ]


def _is_covered(
    state: ScheduleState, block: StmtSRef, region: ir.BufferRegion, producers: Sequence[StmtSRef]
) -> bool:
    top = scopes.lowest_common_ancestor([block, *producers])
    outer = Surroundings(scopes.loops_from(top))
    view = RelaxedView(block.realize, scopes.loops_between(block, top), outer)
    consumed, _ = view.box(region.region)
    boxes: list[Box] = []
    holds = _outer_tests(block, top)
    for producer in producers:
        for written in producer.block.writes:
            if written.buffer is region.buffer:
                if (made := produced_box(state, producer, written, top, holds)) is None:
                    continue
                if box_covers(made, consumed, region, outer):
                    return True
                boxes.append(made)
    return _merged_cover(boxes, consumed, region, outer)


def _outer_tests(block: StmtSRef, top: StmtSRef) -> list[ir.PrimExpr]:
    """Tests of a block whose outcome is the same for all it does under `top`."""
    inner = {loop.loop_var for loop in scopes.loops_between(block, top)}
    tests = ir.conjuncts(block.realize.predicate)
    return [test for test in tests if not ir.uses_var(test, inner.__contains__)]


def produced_box(
    state: ScheduleState,
    producer: StmtSRef,
    written: ir.BufferRegion,
    top: StmtSRef,
    holds: Sequence[ir.PrimExpr] = (),
) -> Box | None:
    """A box that a block surely writes during one iteration of what lies around `top`.

    `holds` are tests that are known to hold in that iteration.
    """
    realize = producer.realize
    if holds:
        tests = ir.conjuncts(realize.predicate)
        left = [t for t in tests if not any(ir.expr_deep_equal(t, known) for known in holds)]
        realize = ir.replace(realize, predicate=ir.logical_and(*left))
    outer = Surroundings(scopes.loops_from(top))
    view = RelaxedView(realize, scopes.loops_between(producer, top), outer)
    box, exact = view.box(written.region)
    if exact:
        return box
    return _guarded_box(state, producer, written, top, outer)


def _guarded_box(
    state: ScheduleState,
    producer: StmtSRef,
    written: ir.BufferRegion,
    top: StmtSRef,
    outer: Surroundings,
) -> Box | None:
    """What a block writes whose predicate only keeps its iterators inside their domains.

    With affine bindings each combination of iterator values occurs exactly once; if the predicate
    leaves whole domains over all loops, it removes nothing but values outside of them.
    """
    realize = producer.realize
    if type(realize.predicate) is ir.IntImm or not has_affine_binding(state, producer):
        return None
    by_var = scopes.iterator_domains(realize.block)
    everything = RelaxedView(realize, scopes.loops_from(producer.parent))
    image, exact = everything.box(points_at(by_var))
    if not exact or not arith.covers([interval_of(dim) for dim in image], list(by_var.values())):
        return None
    plain = [item.min for item in written.region]
    if len({id(index) for index in plain}) != len(plain) or not all(
        index in by_var and ir.is_one(item.extent)
        for index, item in zip(plain, written.region, strict=True)
    ):
        return None
    always = ir.replace(realize, predicate=ir.TRUE)
    box, exact = RelaxedView(always, scopes.loops_between(producer, top), outer).box(written.region)
    if not exact:
        return None
    own = [arith.IntervalSet.from_range(by_var[index]) for index in plain]  # type: ignore[index]
    return [
        arith.intersect([interval_of(dim), domain], outer.analyzer)
        for dim, domain in zip(box, own, strict=True)
    ]


def box_covers(made: Box, consumed: Box, region: ir.BufferRegion, outer: Surroundings) -> bool:
    """True when `made` holds all of `consumed` that lies inside the buffer."""
    open_dims = [
        axis
        for axis, (big, small) in enumerate(zip(made, consumed, strict=True))
        if not _span_covers(big, small) and not _is_whole(big, region.buffer.shape[axis])
    ]
    if not open_dims:
        return True
    analyzer = outer.analyzer
    for axis in open_dims:
        extent = region.buffer.shape[axis]
        inside = arith.IntervalSet.from_range(ir.Range(ir.const(0, extent.dtype), extent))
        clipped = arith.intersect([interval_of(consumed[axis]), inside], analyzer)
        if not arith.covers([interval_of(made[axis])], [clipped], analyzer):
            return False
    return True


def _span_covers(big: object, small: object) -> bool:
    return (
        isinstance(big, SumSpan)
        and isinstance(small, SumSpan)
        and big.offset <= small.offset
        and small.offset + small.extent <= big.offset + big.extent
        and big.same_terms(small)
    )


def _is_whole(dim: object, extent: object) -> bool:
    return (
        isinstance(dim, SumSpan)
        and not dim.terms
        and isinstance(extent, ir.IntImm)
        and dim.offset <= 0
        and dim.offset + dim.extent >= extent.value
    )


def _merged_cover(
    boxes: list[Box], consumed: Box, region: ir.BufferRegion, outer: Surroundings
) -> bool:
    """Several boxes that only differ in one dimension and touch there count as one."""
    while (merged := _merged_once(boxes)) is not None:
        if box_covers(merged[-1], consumed, region, outer):
            return True
        boxes = merged
    return False


def _merged_once(boxes: list[Box]) -> list[Box] | None:
    for one, other in itertools.combinations(boxes, 2):
        if (joined := _merge(one, other)) is not None:
            return [*(box for box in boxes if box is not one and box is not other), joined]
    return None


def _merge(one: Box, other: Box) -> Box | None:
    differing = -1
    for axis, (a, b) in enumerate(zip(one, other, strict=True)):
        if not (isinstance(a, SumSpan) and isinstance(b, SumSpan) and a.same_terms(b)):
            return None
        if (a.offset, a.extent) != (b.offset, b.extent):
            if differing >= 0:
                return None
            differing = axis
    if differing < 0:
        return one
    a, b = one[differing], other[differing]
    assert isinstance(a, SumSpan)
    assert isinstance(b, SumSpan)
    low, high = (a, b) if a.offset <= b.offset else (b, a)
    if low.offset + low.extent < high.offset:
        return None
    end = max(low.offset + low.extent, high.offset + high.extent)
    joined = SumSpan(a.terms, low.offset, end - low.offset, a.dtype)
    return [*one[:differing], joined, *one[differing + 1 :]]


def forget_flow(
    state: ScheduleState, *blocks: StmtSRef, buffers: Collection[ir.Buffer] | None = None
) -> None:
    """Have region cover of some blocks computed anew when it is next asked for.

    Where it is known that only reads of `buffers` changed, all other reads stay as they are: they
    were covered, and transformed loops may have put that beyond proof.
    """
    for block in blocks:
        info = state.info(block)
        if buffers is None or info.region_cover is False:
            info.in_doubt = None
        elif info.region_cover or info.in_doubt is not None:
            info.in_doubt = (info.in_doubt or frozenset()).union(buffers)
        info.region_cover = None


def settle_flags(state: ScheduleState) -> None:
    """Compute what is not known of the blocks, before the program changes.

    Loop transformations keep what is known, and may put it beyond proof. Whether a primitive is
    allowed must depend on the steps before it alone, not on which questions were asked in between.
    """
    for block, info in list(state.infos.items()):
        if info.affine_binding is None:
            has_affine_binding(state, block)
        if info.region_cover is None and state.settles_flow:
            region_cover(state, block)


@functools.lru_cache(maxsize=256)
def initial_flags(func: ir.PrimFunc) -> Mapping[ir.Block, tuple[bool | None, bool | None]]:
    """Affine binding and region cover of the blocks of a function; searches start often from it."""
    state = ScheduleState(ir.IRModule({"main": func}))
    settle_flags(state)
    return {
        block.block: (info.affine_binding, info.region_cover) for block, info in state.infos.items()
    }


def adopt_initial_flags(state: ScheduleState) -> None:
    """Tell a new state what is known of its functions."""
    for name in state.roots:
        for block, known in initial_flags(state.mod.functions[name]).items():
            state.infos[state.srefs[block]] = BlockInfo(*known)
