"""Moving a block next to the blocks it exchanges data with: what must hold, and where it would go.

`plan_compute_at` and `plan_reverse_compute_at` change nothing: they check every condition and give
the new loops of the block, so that asking whether a move is possible needs no copy of a schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.arith import to_range
from tilewright.ir import BlockRealize, Buffer, For, ForKind, IntImm, Range, SeqStmt, Stmt, const
from tilewright.schedule.conditions.checks import why_not_complete, why_not_reduction
from tilewright.schedule.conditions.races import check_reads_stay_inside
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves.relocate import check_removable, path_below, position_in
from tilewright.schedule.regions import domains as iterations, relaxed
from tilewright.schedule.state import ScheduleState, StmtSRef, scope as scopes
from tilewright.schedule.state.flags import check_stage_pipeline


class NeitherCompleteNorReduction(PrimitiveError):
    reason = "block {block!r} is neither a complete nor a reduction block: {why}"
    remedy = "only blocks that compute each of their outputs once can be moved"


class NotInTheSameScope(PrimitiveError):
    reason = "block {block!r} and loop {loop!r} are not in the same scope"
    remedy = "choose a loop under block {scope!r}"


class LoopAroundBlock(PrimitiveError):
    reason = "loop {loop!r} is already around block {block!r}"
    remedy = "choose a loop of one of the blocks it exchanges data with"


class IsOutputBlock(PrimitiveError):
    reason = "block {block!r} writes buffer {buffer!r}, which is seen outside of its scope"
    remedy = "move other blocks to it instead"


class NeighboursOutsideLoop(PrimitiveError):
    reason = "{role} {neighbours} of block {block!r} are not under loop {loop!r}"
    remedy = "choose a loop around all {role}, or move those first"


class NothingToComputeFor(PrimitiveError):
    reason = "block {block!r} has no consumers"
    remedy = "there is nothing to compute it for; only blocks whose results are read can be moved"


class IndexOutOfRange(PrimitiveError):
    reason = "index {index} is not among the possible positions {first} to {last} in loop {loop!r}"
    remedy = "use -1 for the last and -2 for the first of them"


class UnknownIterations(PrimitiveError):
    reason = "the predicate `{predicate}` of block {block!r} does not leave a box of iterations"
    remedy = "its loops could not be made anew"


@dataclass(frozen=True)
class MovePlan:
    """A move that can be carried out."""

    block: StmtSRef
    loop: StmtSRef
    removed: StmtSRef  # the old nest
    nest: Stmt
    index: int
    changed: tuple[StmtSRef, ...]  # blocks that read something at another place than before


class DecidesIterations(PrimitiveError):
    reason = "what block {block!r} writes, {buffer!r}, says how often a loop runs"
    remedy = "it has to stay in front of that loop"


@dataclass(frozen=True)
class Site:
    """A block, the loop it is to go to, and what lies around."""

    state: ScheduleState
    block: StmtSRef
    loop: StmtSRef
    scope: scopes.BlockScope
    removed: StmtSRef
    outer: relaxed.Surroundings  # the loop and those around it

    @property
    def producers(self) -> list[StmtSRef]:
        return self.scope.producers(self.block, *scopes.FLOW)

    @property
    def consumers(self) -> list[StmtSRef]:
        return self.scope.consumers(self.block, *scopes.FLOW)


def find_site(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, *, may_be_output: bool
) -> Site:
    """The conditions that both directions share."""
    root = block.scope_root
    check_stage_pipeline(state, root)
    scope = state.scope_of(root)
    why = why_not_complete(scope, block)
    if why and why_not_reduction(state, scope, block):
        raise NeitherCompleteNorReduction(block=block, why=why)
    assert loop.loop is not None  # `loop` raises for anything but a loop
    if loop.scope_root is not root:
        raise NotInTheSameScope(block=block, loop=loop, scope=root.name)
    if loop.holds(block):
        raise LoopAroundBlock(block=block, loop=loop)
    if not may_be_output:
        check_not_output(root, block)
    for region in block.block.writes:
        if scopes.bounds_read(root.block.body, region.buffer):
            raise DecidesIterations(block=block, buffer=region.buffer.name)
    outer = relaxed.Surroundings(scopes.loops_from(loop))
    return Site(state, block, loop, scope, check_removable(block, [loop]), outer)


def check_not_output(root: StmtSRef, block: StmtSRef) -> None:
    """A block that only writes buffers of its scope."""
    local = set(root.block.alloc_buffers)
    for region in block.block.writes:
        if region.buffer not in local:
            raise IsOutputBlock(block=block, buffer=region.buffer.name)


def check_under_loop(site: Site, neighbours: Sequence[StmtSRef], role: str) -> None:
    """All neighbours are under the loop."""
    if outside := [other for other in neighbours if not site.loop.holds(other)]:
        names = ", ".join(repr(other.name) for other in outside)
        raise NeighboursOutsideLoop(
            *outside, role=role, neighbours=names, block=site.block, loop=site.loop.name
        )


def find_position(site: Site, index: int) -> int:
    """Where in the body of the loop the block goes: after producers, before consumers.

    There always is a place: data flows in program order and the block is not under the loop, so
    the loop holds producers of it (when the block comes later) or consumers, never both.
    """
    body = site.loop.loop.body
    count = len(body.seq) if isinstance(body, SeqStmt) else 1
    after = [_position(site.loop, other) for other in site.producers]
    before = [_position(site.loop, other) for other in site.consumers]
    first = max((position + 1 for position in after if position is not None), default=0)
    last = min((position for position in before if position is not None), default=count)
    if index == -1:
        return last
    if index == -2:
        return first
    if not first <= index <= last:
        raise IndexOutOfRange(loop=site.loop, index=index, first=first, last=last)
    return index


def _position(loop: StmtSRef, block: StmtSRef) -> int | None:
    """The place of the statement in a loop that holds a block; None if it is not in there."""
    child = path_below(loop, block)[0]
    if child.parent is None:
        return None
    body = loop.loop.body
    return position_in(body, child) if isinstance(body, SeqStmt) else 0


def values_of(realize: BlockRealize, loops: Sequence[For]) -> list[Range] | None:
    """The box that a block's bindings fill while all its loops run; None if it has gaps."""
    iter_vars = realize.block.iter_vars
    points = relaxed.points_at(iter_var.var for iter_var in iter_vars)
    box, exact = relaxed.RelaxedView(realize, loops).box(points)
    if not exact:
        return None
    return [
        _as_range(dim, scopes.domain_of(iter_var))
        for dim, iter_var in zip(box, iter_vars, strict=True)
    ]


def _as_range(dim: relaxed.Dimension, dom: Range) -> Range:
    """A dimension as a range: the domain itself where it is the same."""
    if not isinstance(dim, relaxed.SumSpan):
        made = to_range(dim)
        same = relaxed.NOWHERE.analyzer.can_prove_equal
        is_dom = same(made.min, dom.min) and same(made.extent, dom.extent)
        return dom if is_dom else made
    begin, extent = dom.min, dom.extent
    if (
        not dim.terms
        and type(begin) is IntImm
        and type(extent) is IntImm
        and (begin.value, extent.value) == (dim.offset, dim.extent)
    ):
        return dom
    return Range(dim.low(), const(dim.extent, dim.dtype))


# --- compute_at -----------------------------------------------------------------------------------


def plan_compute_at(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, *, preserve_unit_loops: bool, index: int
) -> MovePlan:
    """Compute, in each iteration of `loop`, what the consumers of `block` need there."""
    site = find_site(state, block, loop, may_be_output=False)
    consumers = site.consumers
    if not consumers:
        raise NothingToComputeFor(block=block)
    check_under_loop(site, consumers, "consumers")
    check_reads_stay_inside(site.scope, block, [loop])
    position = find_position(site, index)
    solutions: list[iterations.Solution] = []
    for written in block.block.writes:
        place, boxes = _needed(site, consumers, written.buffer)
        if boxes:
            needed = relaxed.join(boxes, place)
            solutions.append(iterations.solve(block.block, written, needed, place, strict=False))
    wanted = iterations.unite(solutions, site.outer) if solutions else {}
    domains = clipped(site, wanted, _own_values(block))
    nest, _, _ = iterations.make_nest(
        block.block, domains, site.outer, preserve_unit_loops=preserve_unit_loops
    )
    return MovePlan(block, loop, site.removed, nest, position, (block, *consumers))


def _needed(
    site: Site, consumers: Sequence[StmtSRef], buffer: Buffer
) -> tuple[relaxed.Surroundings, list[relaxed.Box]]:
    """What consumers read of a buffer in one iteration, and the loops that this depends on.

    Threads that share the memory of the buffer also share what one iteration computes.
    """
    shared = [loop for loop in site.outer.loops if shares_memory(loop, buffer.scope)]
    place = site.outer
    if shared:
        place = relaxed.Surroundings(loop for loop in site.outer.loops if loop not in set(shared))
    boxes: list[relaxed.Box] = []
    for consumer in consumers:
        view = relaxed.RelaxedView(
            consumer.realize, [*shared, *scopes.loops_between(consumer, site.loop)], place
        )
        boxes += [view.box(r.region)[0] for r in consumer.block.reads if r.buffer is buffer]
    return place, boxes


def shares_memory(loop: For, storage_scope: str) -> bool:
    """True when the threads of a loop see the same memory of that scope."""
    if loop.kind is not ForKind.THREAD_BINDING or loop.thread_binding is None:
        return False
    tag = loop.thread_binding.thread_tag
    scope = storage_scope.split(".")[0]
    if scope == "shared":
        return not tag.startswith("blockIdx")
    return scope == "warp" and tag == "threadIdx.x"


def _own_values(block: StmtSRef) -> list[Range]:
    """The values that the iterators of a block may take."""
    realize = block.realize
    if type(realize.predicate) is IntImm:
        return [scopes.domain_of(iter_var) for iter_var in realize.block.iter_vars]
    if (values := values_of(realize, [loop.loop for loop in block.loops])) is None:
        raise UnknownIterations(block=block, predicate=realize.predicate)
    return values


def clipped(
    site: Site, wanted: iterations.Solution, bounds: Sequence[Range]
) -> list[iterations.IteratorDomain]:
    """The wanted domains of all iterators, limited to the values they may take."""
    iter_vars = site.block.block.iter_vars
    return [
        iterations.clip(bound, wanted.get(iter_var.var), site.outer)
        for iter_var, bound in zip(iter_vars, bounds, strict=True)
    ]
