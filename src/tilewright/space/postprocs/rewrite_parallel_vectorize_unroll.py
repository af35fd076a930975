"""`RewriteParallelVectorizeUnroll`: carry out what `ParallelizeVectorizeUnroll` noted on the root.

The outermost loops of each block become one parallel loop, the innermost ones one vector, and the
loop that then is the outermost one is marked for unrolling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.ir import ForKind, annotation_keys as keys
from tilewright.nest.block_loops import NestLoop, nest_above
from tilewright.nest.contiguity import contiguous_loops
from tilewright.schedule import LoopRV, Schedule, ScheduleState, StmtSRef
from tilewright.schedule.primitives.loop_kind import can_have_kind
from tilewright.space.base import Postproc, postprocs
from tilewright.space.conditions import all_iters_spatial

_KEYS = (keys.PARALLEL, keys.VECTORIZE, keys.UNROLL_EXPLICIT, keys.UNROLL_IMPLICIT)
_OFF = -1


@dataclass(frozen=True)
class _Wishes:
    """What the root block asks for; -1: nothing."""

    parallel: int = _OFF  # iterations to run in parallel, at most
    vectorize: int = _OFF  # lanes of a vector, at most
    unroll_explicit: int = _OFF  # steps to unroll, at most
    unroll_implicit: int = _OFF

    @property
    def unroll_steps(self) -> int:
        return max(self.unroll_explicit, self.unroll_implicit)


@postprocs.register("RewriteParallelVectorizeUnroll")
class RewriteParallelVectorizeUnroll(Postproc):
    """Fuse and mark loops as the annotations of the root block say."""

    def apply(self, sch: Schedule) -> bool:
        for function, root in list(sch.state.roots.items()):
            annotations = root.block.annotations
            if any(key in annotations for key in _KEYS):
                wishes = _Wishes(*(int(annotations.get(key, _OFF)) for key in _KEYS))
                _rewrite_function(sch, function, root, wishes)
        return True


def _rewrite_function(sch: Schedule, function: str, root: StmtSRef, wishes: _Wishes) -> None:
    root_rv = sch.get_block(root.name, function)
    for key in _KEYS:
        if key in root.block.annotations:
            sch.unannotate(root_rv, key)
    for block in sch.get_child_blocks(root_rv):
        if loops := sch.get_loops(block):
            sref = sch.get_sref(block)
            plan = _possible(sch.state, sref, _plan(sref, wishes))
            loops = _fuse(sch, loops, wishes, plan)
            _mark_unrolling(sch, loops[0], sref, wishes)


@dataclass(frozen=True)
class _Plan:
    """How many outermost loops run in parallel, how many innermost ones become a vector."""

    parallel: int
    vectorize: int
    loops: int

    @property
    def takes_all(self) -> bool:
        """Both want every loop: they are fused, then split by the length of the vector."""
        return self.parallel == self.vectorize == self.loops


def _plan(block: StmtSRef, wishes: _Wishes) -> _Plan:
    nest = nest_above(block)
    parallel = _parallel_loops(nest, wishes.parallel)
    if (vectorize := _vector_loops(nest, len(nest), wishes.vectorize)) is not None:
        # Finding contiguous loops takes long: it is done only for loops where it can matter.
        could_take_all = parallel > 0 and all(
            loop.is_free and loop.is_spatial and loop.has_one_child and loop.extent is not None
            for loop in nest
        )
        most = len(nest) if could_take_all else vectorize
        contiguous = contiguous_loops(block.realize, nest, most)
        if could_take_all and contiguous == len(nest):
            return _Plan(len(nest), len(nest), len(nest))
        vectorize = _vector_loops(nest, contiguous, wishes.vectorize)
    vectorize = vectorize or 0
    return _Plan(min(parallel, len(nest) - vectorize), vectorize, len(nest))


def _possible(state: ScheduleState, block: StmtSRef, plan: _Plan) -> _Plan:
    """What of a plan can be carried out: a block that reads what it writes stays as it is."""
    loops = block.loops
    first, last = plan.parallel, plan.loops - plan.vectorize
    parallel = all(can_have_kind(state, loop, ForKind.PARALLEL) for loop in loops[:first])
    vectorize = all(can_have_kind(state, loop, ForKind.VECTORIZED) for loop in loops[last:])
    return replace(
        plan, parallel=first if parallel else 0, vectorize=plan.vectorize if vectorize else 0
    )


def _parallel_loops(nest: Sequence[NestLoop], most_iterations: int) -> int:
    """How many outermost loops it takes to have enough to do in parallel."""
    if most_iterations == _OFF:
        return 0
    count, product = 0, 1
    for loop in nest:
        if not loop.is_spatial or not loop.is_free or loop.extent is None:
            break
        count += 1
        product *= loop.extent
        if product > most_iterations or not loop.has_one_child:
            break
    return count if product > 1 else 0


def _vector_loops(nest: Sequence[NestLoop], contiguous: int, most_lanes: int) -> int | None:
    """How many of the innermost loops that are contiguous fill a vector; None: there is no need.

    There is none where the loops have one iteration in all. A loop that is too long for a vector
    gives 0: as a part of one it would do.
    """
    if most_lanes == _OFF:
        return None
    count, product = 0, 1
    for loop in nest[: -contiguous - 1 : -1]:
        if not loop.is_spatial or not loop.is_free or not loop.has_one_child:
            break
        if loop.extent is None:
            break
        product *= loop.extent
        if product > most_lanes:
            break
        count += 1
    return count if product > 1 else None


def _fuse(sch: Schedule, loops: list[LoopRV], wishes: _Wishes, plan: _Plan) -> list[LoopRV]:
    """Carry out a plan; the loops that are there afterwards."""
    if plan.takes_all:
        outer, inner = sch.split(sch.fuse(*loops), [None, wishes.vectorize])
        sch.parallel(outer)
        sch.vectorize(inner)
        return [outer, inner]
    first, last = plan.parallel, len(loops) - plan.vectorize
    fused = list(loops[first:last])
    if plan.parallel:
        outer = sch.fuse(*loops[:first])
        sch.parallel(outer)
        fused.insert(0, outer)
    if plan.vectorize:
        inner = sch.fuse(*loops[last:])
        sch.vectorize(inner)
        fused.append(inner)
    return fused


def _mark_unrolling(sch: Schedule, loop: LoopRV, block: StmtSRef, wishes: _Wishes) -> None:
    if wishes.unroll_steps <= 0 or all_iters_spatial(block.block):
        return
    sch.annotate(loop, keys.AUTO_UNROLL_MAX_STEP, wishes.unroll_steps)
    sch.annotate(loop, keys.UNROLL_EXPLICIT_PRAGMA, int(wishes.unroll_explicit != _OFF))
