"""`CrossThreadReduction`: the threads of a block add up one result together.

Meant for reductions with few results, such as the sums of a softmax. If the results are used right
away, the reduction also moves to its consumer, so that they never leave shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import TuneError
from tilewright.ir import IterType
from tilewright.nest.kernels import tag_of
from tilewright.schedule import BlockRV, ExprRV, LoopRV, Schedule, StmtSRef
from tilewright.schedule.conditions.checks import loop_iter_type
from tilewright.schedule.primitives.split import Split
from tilewright.schedule.state.scope import lowest_common_ancestor
from tilewright.schedule.trace.instruction import is_step
from tilewright.space import conditions
from tilewright.space.base import NotApplied, ScheduleRule, TaskContext, schedule_rules
from tilewright.space.gpu.gpu_limits import MAX_THREADS, WARP_SIZE, gpu_number
from tilewright.space.tvm.add_rfactor import reorder_and_fuse_reduction_loops, reseeded_copy

THREAD_X = "threadIdx.x"


@dataclass(frozen=True)
class _ConsumerLoop:
    """Where a reduction may move to: into a loop of the block that uses its result."""

    consumer: BlockRV
    loop: LoopRV
    innermost: LoopRV  # of the loops around the consumer


@schedule_rules.register("CrossThreadReduction")
class CrossThreadReduction(ScheduleRule):
    """Offer, besides the plain program, one where `thread_extents` threads share a reduction.

    Does nothing where the target does not say how many threads a block and a warp have.
    """

    def __init__(self, thread_extents: Sequence[int]) -> None:
        wrong = [extent for extent in thread_extents if extent <= 0]
        if wrong or not thread_extents:
            raise TuneError(
                "CrossThreadReduction: thread_extents are one or more positive numbers, "
                f"got {list(thread_extents)}"
            )
        self.thread_extents = tuple(thread_extents)
        self.max_threads_per_block: int | None = None
        self.warp_size: int | None = None

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        self.max_threads_per_block = gpu_number(context.target, MAX_THREADS)
        self.warp_size = gpu_number(context.target, WARP_SIZE)
        if self.max_threads_per_block is None or self.warp_size is None:
            context.logger.warning(
                "CrossThreadReduction is off: target %s lacks %r or %r",
                context.target,
                MAX_THREADS,
                WARP_SIZE,
            )

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if self.max_threads_per_block is None or self.warp_size is None:
            return NotApplied(sch, "the target does not say how many threads it has")
        sref, most = sch.get_sref(block), self.max_threads_per_block
        if reason := conditions.why_not_split_reduction(sch.state, sref, most):
            return NotApplied(sch, reason)
        made = reseeded_copy(sch)
        self._share_reduction(made, block)
        return [made, sch]

    def _share_reduction(self, sch: Schedule, block: BlockRV) -> None:
        place = _find_place(sch, block)
        chances = [1.0 / len(self.thread_extents)] * len(self.thread_extents)
        # Drawn in any case, so that all sketches of a program have the same kinds of decisions.
        drawn = sch.sample_categorical(self.thread_extents, chances)
        threads = drawn if place is None else _move_to_consumer(sch, block, place, drawn)
        fused, _ = reorder_and_fuse_reduction_loops(sch, block)
        _, inner = sch.split(fused, [None, threads])
        sch.bind(inner, THREAD_X)


def _find_place(sch: Schedule, block: BlockRV) -> _ConsumerLoop | None:
    """The loop of the first consumer under which the reduction has just what that loop needs."""
    if len(sch.get_sref(block).block.writes) != 1:
        return None
    consumers = sch.get_consumers(block)
    if not consumers or conditions.needs_multi_level_tiling(sch.get_sref(consumers[0])):
        return None
    common = lowest_common_ancestor([sch.get_sref(consumer) for consumer in consumers])
    if len(consumers) > 1 and not common.is_loop:
        return None
    around_consumer = sch.get_loops(consumers[0])
    around_block = sch.get_loops(block)
    position = _depth_to_join(sch, around_block, around_consumer, common)
    if position < 0:
        return None
    return _ConsumerLoop(consumers[0], around_consumer[position], around_consumer[-1])


def _depth_to_join(
    sch: Schedule,
    around_block: Sequence[LoopRV],
    around_consumer: Sequence[LoopRV],
    common: StmtSRef,
) -> int:
    """The innermost loop of the consumer that all spatial loops of the block lie outside of."""
    shared = min(len(around_block), len(around_consumer))
    for depth in range(shared):
        kind = loop_iter_type(sch.state, sch.get_sref(around_block[depth]))
        if kind is not IterType.DATA_PAR:
            return depth - 1
        if sch.get_sref(around_consumer[depth]) is common:
            return depth
    return shared - 1


def _move_to_consumer(
    sch: Schedule, block: BlockRV, place: _ConsumerLoop, threads: ExprRV
) -> int | ExprRV:
    """Compute the reduction in shared memory where it is used; the number of threads there."""
    loop = place.loop
    chosen: int | ExprRV = threads
    around = map(sch.get_sref, sch.get_loops(place.consumer))
    if bound := [loop for loop in around if tag_of(loop.loop).startswith("threadIdx")]:
        chosen = _threads_of(sch, bound[0])
    else:
        outer, inner = sch.split(place.innermost, [None, threads])
        sch.bind(inner, THREAD_X)
        loop = outer if loop is place.innermost else loop
    sch.compute_at(block, loop, preserve_unit_loops=True)
    sch.set_scope(block, 0, "shared")
    return chosen


def _threads_of(sch: Schedule, thread_loop: StmtSRef) -> int | ExprRV:
    """How many threads a bound loop has: the number that was drawn when it was made, if any."""
    for inst in sch.trace.insts if sch.trace is not None else ():
        if is_step(inst, Split) and inst.outputs:
            made, factor = sch.symbols.get(inst.outputs[-1]), inst.step.factors[-1]
            if made is thread_loop and isinstance(factor, ExprRV):
                return factor
    if (extent := conditions.constant_extent(thread_loop)) is None:
        raise TuneError(f"CrossThreadReduction: {thread_loop.name!r} has no constant extent")
    return extent
