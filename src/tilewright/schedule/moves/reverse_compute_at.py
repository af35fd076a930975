"""Moving a consumer to its producers: `plan_reverse_compute_at`.

A consumer that runs earlier must find there everything it reads, must still run for all its
iterations, and, when it accumulates, for each of them exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import arith, ir
from tilewright.ir.access import inputs_of
from tilewright.schedule.conditions.checks import has_affine_binding
from tilewright.schedule.conditions.races import check_no_race, depends_on, reduces_together
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves import compute_at as moves
from tilewright.schedule.regions.domains import CannotInvert, Solution, make_nest, solve, unite
from tilewright.schedule.regions.relaxed import Box, RelaxedView, interval_of, join
from tilewright.schedule.state import ScheduleState, StmtSRef
from tilewright.schedule.state.flags import box_covers
from tilewright.schedule.state.scope import loops_between

Provided = list[tuple[ir.BufferRegion, Box]]  # each read, and what one iteration provides for it


class CannotFollowProducer(PrimitiveError):
    reason = "index `{index}` of block {block!r} does not say which of its iterations read a region"
    remedy = "only accesses that give each element to one iteration can follow their producer"


class ProducerLeavesGaps(PrimitiveError):
    reason = (
        "block {producer!r} does not write a contiguous region of {buffer!r} in one iteration of "
        "loop {loop!r}"
    )
    remedy = "choose a loop around all loops that the gaps come from"


class NotYetProduced(PrimitiveError):
    reason = (
        "block {block!r} would read parts of buffer {buffer!r} that are not written in the same "
        "iteration of loop {loop!r}"
    )
    remedy = "choose a loop further out"


class ConsumersRunBefore(PrimitiveError):
    reason = "{consumers} read what block {block!r} writes, and run before loop {loop!r}"
    remedy = "choose a loop that comes before all consumers"


class IterationsLost(PrimitiveError):
    reason = "block {block!r} would not run for all its iterations under loop {loop!r}"
    remedy = "it does more than its producers, for example padding; choose another block to move"


class ReductionCutByLoop(PrimitiveError):
    reason = "the reduction of block {block!r} would run {how} under loop {loop!r}"
    remedy = "choose a loop around the reduction"


def plan_reverse_compute_at(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, *, preserve_unit_loops: bool, index: int
) -> moves.MovePlan:
    """Run, in each iteration of `loop`, what can be computed from what was produced there."""
    site = moves.find_site(state, block, loop, may_be_output=True)
    producers = site.producers
    moves.check_under_loop(site, producers, "producers")
    _check_consumers_follow(site)
    position = moves.find_position(site, index)
    old = block.realize
    if (values := moves.values_of(old, [outer.loop for outer in block.loops])) is None:
        raise moves.UnknownIterations(block=block, predicate=old.predicate)
    provided = _provided(site, producers)
    wanted = unite([_solved(site, r, box) for r, box in provided], site.outer) if provided else {}
    domains = moves.clipped(site, wanted, values)
    nest, realize, made = make_nest(
        block.block, domains, site.outer, preserve_unit_loops=preserve_unit_loops
    )
    _check_produced(site, realize, made, provided)
    loops = [*site.outer.loops, *made]
    _check_all_iterations(site, realize, loops, values, provided)
    check_no_race(block, realize.iter_values, site.outer.loops)
    if block.block.init is not None:
        _check_reduction(site, realize, loops)
    return moves.MovePlan(block, loop, site.removed, nest, position, (block, *site.consumers))


def _check_consumers_follow(site: moves.Site) -> None:
    """No consumer comes before the loop; those under it are a matter of the position there."""
    order = {block: number for number, block in enumerate(site.scope.blocks)}
    start = min(order[block] for block in site.state.child_blocks(site.loop))
    early = [
        consumer
        for consumer in site.consumers
        if order[consumer] < start and not site.loop.holds(consumer)
    ]
    if early:
        names = ", ".join(repr(consumer.name) for consumer in early)
        raise ConsumersRunBefore(*early, block=site.block.name, loop=site.loop, consumers=names)


def _provided(site: moves.Site, producers: Sequence[StmtSRef]) -> Provided:
    found: Provided = []
    for read in inputs_of(site.block.block).values():
        boxes: list[Box] = []
        for producer in producers:
            inner = loops_between(producer, site.loop)
            for written in producer.block.writes:
                if written.buffer is read.buffer:
                    boxes.append(_written_box(site, producer, written, inner))
        if boxes:
            found.append((read, join(boxes, site.outer)))
    return found


def _written_box(
    site: moves.Site, producer: StmtSRef, written: ir.BufferRegion, inner: Sequence[ir.For]
) -> Box:
    """What a producer writes in one iteration, apart from what its predicate takes away.

    The predicate of a block with affine bindings takes away the same elements in every iteration:
    those that it never writes, which nobody reads from a covered region.
    """
    realize = producer.realize
    guarded = type(realize.predicate) is not ir.IntImm
    view = RelaxedView(
        ir.replace(realize, predicate=ir.TRUE) if guarded else realize, inner, site.outer
    )
    box, exact = view.box(written.region)
    if not exact or (guarded and not has_affine_binding(site.state, producer)):
        raise ProducerLeavesGaps(producer=producer, buffer=written.buffer.name, loop=site.loop)
    return box


def _solved(site: moves.Site, read: ir.BufferRegion, box: Box) -> Solution:
    try:
        return solve(site.block.block, read, box, site.outer, strict=True)
    except CannotInvert as failure:
        raise CannotFollowProducer(block=site.block, index=failure.args[0]) from None


def _check_produced(
    site: moves.Site, realize: ir.BlockRealize, made: Sequence[ir.For], provided: Provided
) -> None:
    view = RelaxedView(ir.replace(realize, predicate=ir.TRUE), made, site.outer)
    for read, box in provided:
        consumed, _ = view.box(read.region)
        if not box_covers(box, consumed, read, site.outer):
            raise NotYetProduced(block=site.block, buffer=read.buffer.name, loop=site.loop)


def _check_all_iterations(
    site: moves.Site,
    realize: ir.BlockRealize,
    loops: Sequence[ir.For],
    values: Sequence[ir.Range],
    provided: Provided,
) -> None:
    after = moves.values_of(ir.replace(realize, predicate=ir.TRUE), loops)
    if after is not None and (
        all(new is old for new, old in zip(after, values, strict=True))
        or arith.covers(after, values)
    ):
        return
    if not _follows_producers(site.block, provided):
        raise IterationsLost(block=site.block, loop=site.loop)


def _follows_producers(block: StmtSRef, provided: Provided) -> bool:
    """True when each iteration of a block reads nothing but elements of a buffer.

    As a stage of a pipeline it finds them written; where they are, it runs after the move.
    """
    view = RelaxedView(block.realize, [loop.loop for loop in block.loops])
    boxes = [(read.buffer, view.box(read.region)[0]) for read, _ in provided]
    return any(
        arith.covers(ir.BufferRegion.full(buffer).region, [interval_of(dim) for dim in box])
        for buffer, box in boxes
    )


def _check_reduction(site: moves.Site, realize: ir.BlockRealize, loops: Sequence[ir.For]) -> None:
    """Each iteration runs once, the one that initialises first."""
    domains = {loop.loop_var: loop.domain for loop in loops if not ir.is_one(loop.extent)}
    maps = (
        arith.detect_iter_map(realize.iter_values, domains, condition, arith.IterMapLevel.BIJECTIVE)
        for condition in (ir.TRUE, realize.predicate)
    )
    how = "" if any(map(_rises, maps)) else "more than once or out of order"
    reduced = [
        value
        for iter_var, value in realize.bindings
        if iter_var.iter_type is ir.IterType.COMM_REDUCE
    ]
    if any(depends_on(loop, reduced) and not reduces_together(loop) for loop in loops):
        how = "in parallel"
    if how:
        raise ReductionCutByLoop(block=site.block, loop=site.loop, how=how)


def _rises(found: arith.IterMapResult) -> bool:
    """True for a map that takes each value once, in the order of the iterations."""
    return not found.errors and all(
        type(split.scale) is ir.IntImm and split.scale.value > 0
        for total in found.indices
        for split in total.args
    )
