"""`parallel`, `vectorize`, `unroll`, `bind`: how the iterations of a loop are carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tilewright.ir import Buffer, ForKind, IterType, IterVar, Var, is_one, replace, uses_var
from tilewright.schedule.conditions import checks
from tilewright.schedule.conditions.races import depends_on
from tilewright.schedule.conditions.slices import touches_own_slices, writes_own_tiles
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError, is_allowed
from tilewright.schedule.state import LoopRV, ScheduleState, StmtSRef
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive

_AXES = tuple(f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx", "vthread") for axis in "xyz")
THREAD_AXES = (*_AXES, "vthread")


class IteratorNotParallel(PrimitiveError):
    reason = (
        "the iterations of loop {loop!r} depend on each other: block {block!r} binds it to its "
        "{kind} iterator {iterator!r}"
    )
    remedy = "only loops over spatial iterators can run in any order; see rfactor for reductions"


class IterationsShareResult(PrimitiveError):
    reason = (
        "all iterations of loop {loop!r} write the same elements of {buffer!r} in block {block!r}, "
        "and {buffer!r} is used outside of the loop"
    )
    remedy = "move the block out of the loop"


class UnknownThreadAxis(PrimitiveError):
    reason = "unknown thread axis {axis!r}"
    remedy = "use blockIdx.x/y/z, threadIdx.x/y/z or vthread.x/y/z"


_KIND_NAMES = {
    IterType.COMM_REDUCE: "reduction",
    IterType.ORDERED: "ordered",
    IterType.OPAQUE: "opaque",
    IterType.THREAD_INDEX: "thread",
}


def set_loop_kind(
    state: ScheduleState, loop: StmtSRef, kind: ForKind, thread_axis: str = ""
) -> None:
    """Change how a loop runs."""
    stmt = loop.loop
    if state.enable_check:
        _check_kind(state, loop, kind, thread_axis)
    binding = None
    if thread_axis:
        binding = IterVar(
            None, Var(thread_axis, stmt.loop_var.dtype), IterType.THREAD_INDEX, thread_axis
        )
    state.replace(loop, replace(stmt, kind=kind, thread_binding=binding))


def can_have_kind(state: ScheduleState, loop: StmtSRef, kind: ForKind) -> bool:
    """Whether a loop may run so."""
    return is_allowed(_check_kind, state, loop, kind, "")


def _check_kind(state: ScheduleState, loop: StmtSRef, kind: ForKind, thread_axis: str) -> None:
    if kind is ForKind.UNROLLED:
        return
    blocks = state.child_blocks(loop)
    _check_dataflow(state, loop, blocks)
    for block in blocks:
        _check_block(block, loop.loop.loop_var, loop, thread_axis.startswith("threadIdx"))
    if kind is not ForKind.THREAD_BINDING and not is_one(loop.loop.extent):
        _check_own_results(state, loop, blocks)


def _check_dataflow(state: ScheduleState, loop: StmtSRef, blocks: list[StmtSRef]) -> None:
    try:
        checks.check_compact_dataflow(state, loop)
    except checks.NotCompactDataflow:
        reasons = {checks.why_not_compact(state, loop, block) for block in blocks}
        if not reasons <= {"", checks.READS_ITS_RESULT} or not touches_own_slices(
            state, loop, blocks
        ):
            raise


def _check_block(block: StmtSRef, variable: Var, loop: StmtSRef, allow_reduction: bool) -> None:
    realize = block.realize
    for iter_var, value in realize.bindings:
        kind = iter_var.iter_type
        if kind is IterType.DATA_PAR or (allow_reduction and kind is IterType.COMM_REDUCE):
            continue
        if uses_var(value, variable.same_as):
            raise IteratorNotParallel(
                loop=loop, block=block, kind=_KIND_NAMES[kind], iterator=iter_var.var.name
            )


def _check_own_results(state: ScheduleState, loop: StmtSRef, blocks: Sequence[StmtSRef]) -> None:
    """A block that does not depend on the loop may only fill buffers private to an iteration."""
    root = loop.scope_root
    for block in blocks:
        if _writes_by_loop(loop, block) or writes_own_tiles(loop, block):
            continue
        for region in block.block.writes:
            if _is_seen_outside(state, root, blocks, region.buffer):
                raise IterationsShareResult(loop=loop, block=block, buffer=region.buffer.name)


def _writes_by_loop(loop: StmtSRef, block: StmtSRef) -> bool:
    """True when the loop says, through iterators of a block, what the block writes."""
    realize = block.realize
    moving = {
        iter_var.var for iter_var, value in realize.bindings if depends_on(loop.loop, [value])
    }
    return all(
        any(uses_var(axis.min, moving.__contains__) for axis in region.region)
        for region in block.block.writes
    )


def _is_seen_outside(
    state: ScheduleState, root: StmtSRef, inside: Sequence[StmtSRef], buffer: Buffer
) -> bool:
    if not any(known is buffer for known in root.block.alloc_buffers):
        return True
    within = set(inside)
    return any(
        region.buffer is buffer
        for block in state.scope_of(root).blocks
        if block not in within
        for region in (*block.block.reads, *block.block.writes)
    )


class _SetKind(Primitive[None]):
    loop_kind: ClassVar[ForKind]
    moves_blocks = False
    loop: LoopRV = given()

    def run(self, sch: ScheduleCore) -> None:
        set_loop_kind(sch.state, sch.get_sref(self.loop), self.loop_kind)


@register_primitive
class Parallel(_SetKind):
    loop_kind = ForKind.PARALLEL


@register_primitive
class Vectorize(_SetKind):
    loop_kind = ForKind.VECTORIZED


@register_primitive
class Unroll(_SetKind):
    loop_kind = ForKind.UNROLLED


@register_primitive
class Bind(_SetKind):
    thread_axis: str

    def run(self, sch: ScheduleCore) -> None:
        if self.thread_axis not in THREAD_AXES:
            raise UnknownThreadAxis(axis=self.thread_axis)
        loop = sch.get_sref(self.loop)
        set_loop_kind(sch.state, loop, ForKind.THREAD_BINDING, self.thread_axis)
