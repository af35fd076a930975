"""`compute_at` and `reverse_compute_at`: a block under a loop of its consumers or producers."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import is_allowed
from tilewright.schedule.moves.compute_at import MovePlan, plan_compute_at
from tilewright.schedule.moves.relocate import move
from tilewright.schedule.moves.reverse_compute_at import plan_reverse_compute_at
from tilewright.schedule.primitives.compute_inline import compute_inline
from tilewright.schedule.primitives.reverse_compute_inline import reverse_compute_inline
from tilewright.schedule.state import BlockRV, LoopRV, ScheduleState, StmtSRef
from tilewright.schedule.state.flags import forget_flow
from tilewright.schedule.state.sref import INLINE_MARK, ROOT_MARK
from tilewright.schedule.trace.instruction import (
    Primitive,
    constant,
    flag,
    given,
    register_primitive,
)


def can_compute_at(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, *, preserve_unit_loops: bool = False
) -> bool:
    """Whether `compute_at` would work; nothing changes."""
    keep = preserve_unit_loops
    return is_allowed(_planned, state, block, loop, preserve_unit_loops=keep, index=-1)


def _planned(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, *, preserve_unit_loops: bool, index: int
) -> MovePlan:
    """How to move a block; whoever asks first whether it can be moved does not plan twice."""
    if state.plans[0] is not state.mod:
        state.plans = (state.mod, {})
    plans, key = state.plans[1], (block, loop, preserve_unit_loops, index)
    if key not in plans:
        plans[key] = plan_compute_at(
            state, block, loop, preserve_unit_loops=preserve_unit_loops, index=index
        )
    plan: MovePlan = plans[key]
    return plan


def _carry_out(state: ScheduleState, plan: MovePlan) -> None:
    written = [region.buffer for region in plan.block.block.writes]
    forget_flow(state, plan.block)
    forget_flow(state, *(b for b in plan.changed if b is not plan.block), buffers=written)
    state.info(plan.block).affine_binding = None
    move(state, plan.removed, plan.loop, plan.nest, plan.index)


class _Placing(Primitive[None]):
    """A block goes into a loop, or where a sampled location says."""

    block: BlockRV = given()
    loop: LoopRV = given()
    preserve_unit_loops: bool = flag()
    index: int = constant(default=-1)

    def placed(
        self,
        sch: ScheduleCore,
        plan: Callable[..., MovePlan],
        inline: Callable[[ScheduleState, StmtSRef], None],
    ) -> None:
        """Do what fits the location."""
        state, block, loop = sch.state, sch.get_sref(self.block), sch.get_sref(self.loop)
        if loop is INLINE_MARK:
            inline(state, block)
        elif loop is not ROOT_MARK:
            keep, index = self.preserve_unit_loops, self.index
            _carry_out(state, plan(state, block, loop, preserve_unit_loops=keep, index=index))


@register_primitive
class ComputeAt(_Placing):
    """Move a producer under a loop around all its consumers."""

    def run(self, sch: ScheduleCore) -> None:
        self.placed(sch, _planned, compute_inline)


@register_primitive
class ReverseComputeAt(_Placing):
    """Move a consumer under a loop around all its producers."""

    def run(self, sch: ScheduleCore) -> None:
        self.placed(sch, plan_reverse_compute_at, reverse_compute_inline)
