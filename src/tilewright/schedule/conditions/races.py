"""Parallel loops whose iterations would share results: what moves of blocks must not lead to."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import For, ForKind, PrimExpr, is_one, uses_var
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import StmtSRef
from tilewright.schedule.state.scope import BlockScope, DepKind


class WrittenByAll(PrimitiveError):
    reason = "all iterations of the parallel loop {loop!r} would write what block {block!r} writes"
    remedy = "make the loop parallel only where each iteration writes elements of its own"


class ReadOutsideParallelLoop(PrimitiveError):
    reason = (
        "each iteration of the parallel loop {loop!r} runs all of block {producer!r} for itself, "
        "and block {block!r} would read its result outside of the loop"
    )
    remedy = "move block {producer!r} out of the loop first, or make the loop serial"


def check_no_race(block: StmtSRef, values: Sequence[PrimExpr], loops: Sequence[For]) -> None:
    """No parallel loop runs a block with these bindings several times for the same iterators."""
    for loop in loops:
        if repeats(loop, values):
            raise WrittenByAll(loop, block=block, loop=loop.loop_var.name)


def check_reads_stay_inside(scope: BlockScope, block: StmtSRef, places: Sequence[StmtSRef]) -> None:
    """What `block` reads may also be read at `places`: no parallel iteration has it for itself."""
    for producer in scope.producers(block, DepKind.RAW):
        values = producer.realize.iter_values
        for loop in producer.loops:
            if not repeats(loop.loop, values):
                continue
            for place in places:
                if not loop.holds(place):
                    raise ReadOutsideParallelLoop(loop=loop, block=block, producer=producer.name)


def repeats(loop: For, values: Sequence[PrimExpr]) -> bool:
    """A parallel loop that does not decide which values a block is run for."""
    if loop.kind not in (ForKind.PARALLEL, ForKind.VECTORIZED) or is_one(loop.extent):
        return False
    return not depends_on(loop, values)


def depends_on(loop: For, values: Sequence[PrimExpr]) -> bool:
    """Whether the variable of a loop occurs in one of the values."""
    own = loop.loop_var
    return any(value is own or uses_var(value, own.same_as) for value in values)


def reduces_together(loop: For) -> bool:
    """Whether iterations of a loop may contribute to one result: in turn, or as threads."""
    binding = loop.thread_binding
    if binding is not None:
        return binding.thread_tag.startswith("threadIdx")
    return loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
