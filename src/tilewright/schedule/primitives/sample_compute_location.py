"""`sample_compute_location`: choose where a block is computed: inlined, at the root, or at a loop.

Locations are numbers: -2 stands for inlining, -1 for the root, others for the position of a loop
among the loops around the first consumer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.ir import For, IterType, is_one
from tilewright.schedule.conditions.checks import loop_iter_types
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.primitives.compute_at import can_compute_at
from tilewright.schedule.primitives.compute_inline import can_compute_inline
from tilewright.schedule.state import BlockRV, LoopRV, ScheduleState, StmtSRef
from tilewright.schedule.state.scope import FLOW, lowest_common_ancestor
from tilewright.schedule.state.sref import INLINE_MARK, ROOT_MARK
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive

INLINE, ROOT = -2, -1


class NotALocation(PrimitiveError):
    reason = "the decision {decision!r} is not a compute location"
    remedy = "give -2 (inline), -1 (root) or the position of a loop"


def compute_locations(state: ScheduleState, block: StmtSRef) -> dict[int, StmtSRef]:
    """Where a block can be computed, in ascending order."""
    possible = _possible_locations(state, block)
    return {where: loop for where, loop in possible.items() if _fits(state, block, where, loop)}


def _possible_locations(state: ScheduleState, block: StmtSRef) -> dict[int, StmtSRef]:
    """The places to look at, in ascending order; whether the block fits there is another matter."""
    loops = _candidates(state, _consumer_loops(state, block))
    return {INLINE: INLINE_MARK, ROOT: ROOT_MARK, **dict(loops)}


def _fits(state: ScheduleState, block: StmtSRef, location: int, loop: StmtSRef) -> bool:
    if location == INLINE:
        return can_compute_inline(state, block)
    return location == ROOT or can_compute_at(state, block, loop, preserve_unit_loops=True)


def _consumer_loops(state: ScheduleState, block: StmtSRef) -> list[StmtSRef]:
    """The loops around all consumers, outermost first."""
    consumers = state.scope_of(block.scope_root).consumers(block, *FLOW)
    if not consumers:
        return []
    boundary = consumers[0].around if len(consumers) == 1 else lowest_common_ancestor(consumers)
    if not isinstance(boundary.stmt, For):
        return []
    return [loop for loop in consumers[0].loops if loop.holds(boundary)]


def _candidates(state: ScheduleState, loops: Sequence[StmtSRef]) -> Iterator[tuple[int, StmtSRef]]:
    """Spatial loops, and reduction loops after them as long as spatial ones follow inside.

    Loops of one iteration are no places of their own and end nothing, but spatial ones among them
    do follow.
    """
    chosen: list[tuple[int, StmtSRef]] = []
    count = 0
    seen_other = False
    kinds = loop_iter_types(state, loops)
    for position, (loop, kind) in enumerate(zip(loops, kinds, strict=True)):
        is_unit = is_one(loop.loop.extent)
        spatial = kind is IterType.DATA_PAR
        if spatial:
            count = len(chosen)
            if seen_other and not is_unit:
                break
        if is_unit:
            continue
        chosen.append((position, loop))
        if spatial:
            count = len(chosen)
        else:
            seen_other = True
    return iter(chosen[:count])


def _decided(sch: ScheduleCore, block: StmtSRef, decision: object) -> tuple[int, StmtSRef]:
    """The place that was decided on, or the nearest one outside of it.

    Places are tried one by one: replays come here all the time, and mostly the first one fits.
    """
    if type(decision) is not int:
        raise NotALocation(decision=decision)
    for location, loop in reversed(_possible_locations(sch.state, block).items()):
        if location <= decision and _fits(sch.state, block, location, loop):
            return location, loop
    return ROOT, ROOT_MARK


@register_primitive
class SampleComputeLocation(Primitive[LoopRV]):
    is_pure = True
    block: BlockRV = given()

    def decide(self, sch: ScheduleCore, decision: object) -> tuple[LoopRV, int]:
        block = sch.get_sref(self.block)
        if decision is None:
            locations = list(compute_locations(sch.state, block).items())
            location, loop = locations[sch.random.integer(0, len(locations))]
        else:
            location, loop = _decided(sch, block, decision)
        return sch.loop_rv(loop), location
