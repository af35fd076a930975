"""`sample_compute_location`: choose where a block is computed: inlined, at the root, or at a loop.

Locations are numbers: -2 stands for inlining, -1 for the root, others for the position of a loop
among the loops around the first consumer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir import For, IntImm, IterType
from tilewright.schedule.conditions import loop_iter_type
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.instruction import Outputs, Primitive, keywords, register_primitive
from tilewright.schedule.primitives.compute_at import can_compute_at
from tilewright.schedule.primitives.compute_inline import can_compute_inline
from tilewright.schedule.scope import (
    DepKind,
    is_ancestor,
    loops_of,
    lowest_common_ancestor,
    scope_of,
    scope_root,
)
from tilewright.schedule.sref import INLINE_MARK, ROOT_MARK, StmtSRef
from tilewright.schedule.state import ScheduleState

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule

INLINE, ROOT = -2, -1


class NotALocation(PrimitiveError):
    reason = "the decision {decision!r} is not a compute location"
    remedy = "give -2 (inline), -1 (root) or the position of a loop"


def compute_locations(state: ScheduleState, block: StmtSRef) -> dict[int, StmtSRef]:
    """Where a block can be computed, in ascending order."""
    locations: dict[int, StmtSRef] = {}
    if can_compute_inline(state, block):
        locations[INLINE] = INLINE_MARK
    locations[ROOT] = ROOT_MARK
    for position, loop in _candidates(state, _consumer_loops(state, block)):
        if can_compute_at(state, block, loop, preserve_unit_loops=True):
            locations[position] = loop
    return locations


def _consumer_loops(state: ScheduleState, block: StmtSRef) -> list[StmtSRef]:
    """The loops around all consumers, outermost first."""
    scope = scope_of(state, scope_root(block))
    flow = (DepKind.RAW, DepKind.WAW)
    consumers = list(dict.fromkeys(e.dst for e in scope.from_block(block) if e.kind in flow))
    if not consumers:
        return []
    boundary = consumers[0].parent if len(consumers) == 1 else lowest_common_ancestor(consumers)
    assert boundary is not None
    if not isinstance(boundary.stmt, For):
        return []
    return [loop for loop in loops_of(consumers[0]) if is_ancestor(loop, boundary)]


def _candidates(state: ScheduleState, loops: Sequence[StmtSRef]) -> Iterator[tuple[int, StmtSRef]]:
    """Spatial loops, and reduction loops after them as long as spatial ones follow inside.

    Loops of one iteration are no places of their own, but spatial ones among them do follow.
    """
    chosen: list[tuple[int, StmtSRef]] = []
    count = 0
    seen_other = False
    for position, loop in enumerate(loops):
        extent = loop.loop.extent
        is_unit = isinstance(extent, IntImm) and extent.value == 1
        spatial = loop_iter_type(state, loop) is IterType.DATA_PAR
        if spatial:
            count = len(chosen)
            if seen_other:
                break
        if is_unit:
            continue
        chosen.append((position, loop))
        if spatial:
            count = len(chosen)
        else:
            seen_other = True
    return iter(chosen[:count])


def _choose(sch: Schedule, found: Sequence[int], decision: Any) -> int:
    if decision is None:
        return found[sch.random.integer(0, len(found))]
    if type(decision) is not int:
        raise NotALocation(decision=decision)
    if decision in found:
        return decision
    return max((location for location in found if location < decision), default=ROOT)


def _run(
    sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
) -> tuple[Outputs, Any]:
    locations = compute_locations(sch.state, sch.get_sref(inputs[0]))
    chosen = _choose(sch, list(locations), decision)
    return sch.loop_rv(locations[chosen]), chosen


register_primitive(
    Primitive(
        "SampleComputeLocation",
        "sample_compute_location",
        _run,
        keywords("block"),
        is_pure=True,
    )
)
