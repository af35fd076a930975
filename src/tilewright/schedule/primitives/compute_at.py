"""`compute_at` and `reverse_compute_at`: a block under a loop of its consumers or producers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves.compute_at import Plan, plan_compute_at
from tilewright.schedule.moves.relocate import move
from tilewright.schedule.moves.reverse_compute_at import plan_reverse_compute_at
from tilewright.schedule.primitives.compute_inline import compute_inline
from tilewright.schedule.primitives.reverse_compute_inline import reverse_compute_inline
from tilewright.schedule.state.flags import forget_flow
from tilewright.schedule.state.sref import INLINE_MARK, ROOT_MARK, StmtSRef
from tilewright.schedule.state.state import ScheduleState
from tilewright.schedule.trace.instruction import Outputs, Primitive, keywords, register_primitive

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule


def compute_at(
    state: ScheduleState,
    block: StmtSRef,
    loop: StmtSRef,
    *,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Move a producer under a loop around all its consumers."""
    _carry_out(state, _planned(state, block, loop, preserve_unit_loops, index))


def reverse_compute_at(
    state: ScheduleState,
    block: StmtSRef,
    loop: StmtSRef,
    *,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Move a consumer under a loop around all its producers."""
    _carry_out(
        state,
        plan_reverse_compute_at(
            state, block, loop, preserve_unit_loops=preserve_unit_loops, index=index
        ),
    )


def can_compute_at(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, *, preserve_unit_loops: bool = False
) -> bool:
    """Whether `compute_at` would work; nothing changes."""
    try:
        _planned(state, block, loop, preserve_unit_loops, index=-1)
    except PrimitiveError:
        return False
    return True


def _planned(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, preserve_unit_loops: bool, index: int
) -> Plan:
    """How to move a block; whoever asks first whether it can be moved does not plan twice."""
    if state.plans[0] is not state.mod:
        state.plans = (state.mod, {})
    plans, key = state.plans[1], (block, loop, preserve_unit_loops, index)
    if key not in plans:
        plans[key] = plan_compute_at(
            state, block, loop, preserve_unit_loops=preserve_unit_loops, index=index
        )
    plan: Plan = plans[key]
    return plan


def can_reverse_compute_at(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, *, preserve_unit_loops: bool = False
) -> bool:
    """Whether `reverse_compute_at` would work; nothing changes."""
    try:
        plan_reverse_compute_at(
            state, block, loop, preserve_unit_loops=preserve_unit_loops, index=-1
        )
    except PrimitiveError:
        return False
    return True


def _carry_out(state: ScheduleState, plan: Plan) -> None:
    written = [region.buffer for region in plan.block.block.writes]
    forget_flow(state, plan.block)
    forget_flow(state, *(b for b in plan.changed if b is not plan.block), buffers=written)
    state.info(plan.block).affine_binding = None
    move(state, plan.block, plan.removed, plan.loop, plan.nest, plan.index)


def _runner(
    place: Callable[..., None], inline: Callable[[ScheduleState, StmtSRef], None]
) -> Callable[..., tuple[Outputs, Any]]:
    def run(
        sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
    ) -> tuple[Outputs, Any]:
        block, loop = (sch.get_sref(rv) for rv in inputs)
        if loop is INLINE_MARK:
            inline(sch.state, block)
        elif loop is not ROOT_MARK:
            place(sch.state, block, loop, preserve_unit_loops=bool(attrs[0]), index=attrs[1])
        return None, None

    return run


def _attrs_to_json(attrs: Sequence[Any]) -> list[Any]:
    return [int(attrs[0]), attrs[1]]


def _attrs_from_json(attrs: Sequence[Any]) -> list[Any]:
    flag, *index = attrs
    return [bool(flag), *(index or [-1])]


def _register(kind: str, method: str, run: Any) -> None:
    register_primitive(
        Primitive(
            kind,
            method,
            run,
            keywords("block", "loop", "preserve_unit_loops", "index"),
            attrs_to_json=_attrs_to_json,
            attrs_from_json=_attrs_from_json,
        )
    )


_register("ComputeAt", "compute_at", _runner(compute_at, compute_inline))
_register(
    "ReverseComputeAt", "reverse_compute_at", _runner(reverse_compute_at, reverse_compute_inline)
)
