"""`reorder`: loops of one nest in another order."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import For, IntImm, IterType, Stmt, Var, free_vars, replace, uses_var
from tilewright.ir.node import nodes_in
from tilewright.schedule.conditions import checks
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import LoopRV, ScheduleState, StmtSRef
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class LoopGivenTwice(PrimitiveError):
    reason = "loop {loop!r} is given twice"


class NotOneChain(PrimitiveError):
    reason = "loops {loops} are not in one nest without branches"
    remedy = "reorder takes loops of one block, each with a single loop or block inside"


class BlockNotReorderable(PrimitiveError):
    reason = "block {block!r} under the loops {why}"


class ReductionOutOfOrder(PrimitiveError):
    reason = (
        "block {block!r} would not start its reduction first: loops {loops} are each part of a "
        "spatial and of a reduction iterator"
    )
    remedy = "keep those loops in their order, or decompose the reduction"


class ReductionRepeated(PrimitiveError):
    reason = (
        "block {block!r} would add to an element again without starting anew: several iterations "
        "inside loop {loop!r} compute the same element"
    )
    remedy = "keep the loops of its reduction inside of those that compute elements again"


class OuterDependsOnInner(PrimitiveError):
    reason = "the bounds of loop {outer!r} depend on loop {inner!r}, which would come inside it"


@register_primitive
class Reorder(Primitive[None]):
    """Put `loops` into the given order; loops between them keep their places."""

    moves_blocks = False
    ordered_loops: tuple[LoopRV, ...] = given(rest=True, positional=True)

    def run(self, sch: ScheduleCore) -> None:
        state, loops = sch.state, [sch.get_sref(loop) for loop in self.ordered_loops]
        if len(loops) < 2:
            return
        chain = _chain(loops)
        blocks = state.child_blocks(chain[0])
        wanted = iter(loops)
        chosen = set(loops)
        order = [next(wanted) if loop in chosen else loop for loop in chain]
        _check_bounds(order)
        for block in blocks:
            _check_block(state, block, chain[0])
            if block.block.init is not None:
                _check_reduction(block, chain, order)
                if not (checks.has_affine_binding(state, block) and _has_as_many_iterations(block)):
                    _check_repetition(block, chain, order)
        body: Stmt = chain[-1].loop.body
        for loop in reversed(order):
            body = replace(loop.loop, body=body)
        assert isinstance(body, For)
        state.replace(chain[0], body)


def _chain(loops: Sequence[StmtSRef]) -> list[StmtSRef]:
    """The nest from the outermost to the innermost of `loops`."""
    chosen = set(loops)
    if len(chosen) != len(loops):
        twice = next(loop for loop in loops if loops.count(loop) > 1)
        raise LoopGivenTwice(loop=twice)
    node = loops[0]
    for loop in loops[1:]:
        node = loop if node.holds(loop) else node
    chain = [node]
    remaining = len(chosen) - 1
    while remaining:
        parent = node.parent
        if parent is None or not isinstance(parent.stmt, For) or parent.stmt.body is not node.stmt:
            names = ", ".join(repr(loop.name) for loop in loops)
            raise NotOneChain(*loops, loops=names)
        chain.append(parent)
        remaining -= parent in chosen
        node = parent
    chain.reverse()
    return chain


def _check_block(state: ScheduleState, block: StmtSRef, top: StmtSRef) -> None:
    """Iterations of the loops from `top` on may run in any order."""
    kinds = (IterType.DATA_PAR, IterType.COMM_REDUCE)
    if any(iter_var.iter_type not in kinds for iter_var in block.block.iter_vars):
        raise BlockNotReorderable(
            block=block, why="has iterators that are neither spatial nor reductions"
        )
    if not checks.has_affine_binding(state, block) and not checks.has_affine_binding_below(
        block, [loop for loop in block.loops if top.holds(loop)]
    ):
        raise BlockNotReorderable(block=block, why="has bindings that are not affine")


def _check_reduction(
    block: StmtSRef, before: Sequence[StmtSRef], after: Sequence[StmtSRef]
) -> None:
    """The first iteration of a reduction initializes: it has to stay the first.

    That is certain as long as loops that are part of both a spatial and a reduction iterator, as
    fusing makes them, keep their order among themselves.
    """
    realize = block.realize
    if all(type(value) is Var for value in realize.iter_values):
        return
    used: dict[bool, set[Var]] = {True: set(), False: set()}
    for iter_var, value in realize.bindings:
        used[iter_var.iter_type is IterType.COMM_REDUCE].update(free_vars(value))
    mixed = used[True] & used[False]
    if len(mixed) < 2:
        return
    old = [loop for loop in before if loop.loop.loop_var in mixed]
    if old != [loop for loop in after if loop.loop.loop_var in mixed]:
        names = ", ".join(repr(loop.name) for loop in old)
        raise ReductionOutOfOrder(*old, block=block, loops=names)


def _has_as_many_iterations(block: StmtSRef) -> bool:
    """True if there are as many iterations of the loops as combinations of iterators."""
    count = points = 1
    for loop in block.loops:
        if type(loop.loop.extent) is not IntImm:
            return False
        count *= loop.loop.extent.value
    for iter_var in block.block.iter_vars:
        if iter_var.dom is None or type(iter_var.dom.extent) is not IntImm:
            return False
        points *= iter_var.dom.extent.value
    return count == points


def _check_repetition(
    block: StmtSRef, before: Sequence[StmtSRef], after: Sequence[StmtSRef]
) -> None:
    """Elements may be computed several times only if each time is a whole reduction."""
    realize = block.realize
    reduced = {
        variable
        for iter_var, value in realize.bindings
        if iter_var.iter_type is IterType.COMM_REDUCE
        for variable in free_vars(value)
    }
    for position, loop in enumerate(after):
        if loop.loop.loop_var not in reduced:
            continue
        outer = before[: before.index(loop)]
        if any(other in outer and other.loop.loop_var not in reduced for other in after[position:]):
            loops = block.loops
            below = loops[loops.index(before[-1]) + 1 :]
            inside = [each.loop for each in (*after[position:], *below)]
            if not checks.runs_once(realize, inside):
                raise ReductionRepeated(block=block, loop=loop)
            return


def _check_bounds(order: Sequence[StmtSRef]) -> None:
    for position, outer in enumerate(order):
        stmt = outer.loop
        bounds = [
            bound
            for bound in (stmt.min, stmt.extent, *nodes_in(stmt.annotations))
            if type(bound) is not IntImm
        ]
        for inner in order[position + 1 :] if bounds else ():
            if any(uses_var(bound, inner.loop.loop_var.same_as) for bound in bounds):
                raise OuterDependsOnInner(outer=outer, inner=inner)
