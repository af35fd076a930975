"""`merge`: sibling loop nests into one that runs their bodies one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.schedule.conditions import interference
from tilewright.schedule.conditions.checks import check_plain_loop
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import LoopRV, ScheduleState, StmtSRef
from tilewright.schedule.state.scope import lowest_common_ancestor
from tilewright.schedule.state.splice import splice
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class TooFewLoops(PrimitiveError):
    reason = "{count} loops were given"
    remedy = "merge takes two or more"


class NestsNotSiblings(PrimitiveError):
    reason = "loops {loops} are not in nests that follow each other in one sequence"


class NotSingleNest(PrimitiveError):
    reason = "loop {inner!r} is not the only statement in loop {outer!r}"


class DifferentDepth(PrimitiveError):
    reason = "loop {loop!r} is loop number {depth} of its nest, loop {first!r} number {expected}"


class DifferentExtents(PrimitiveError):
    reason = "loop {loop!r} has extent {extent}, loop {first!r} has {expected}"


class NestsDependOnEachOther(PrimitiveError):
    reason = (
        "the nests of loops {first!r} and {second!r} both access {buffer!r}, which one of them "
        "writes, and not within the same iteration"
    )
    remedy = "loops can be merged if what an iteration reads was made in the same iteration"


class StatementsBetween(PrimitiveError):
    reason = "a statement between the nests accesses {buffer!r} too, which one of them writes"


@dataclass(frozen=True)
class MergedNest:
    """The loops from directly under the common ancestor to the given one."""

    loops: tuple[StmtSRef, ...]

    @property
    def top(self) -> StmtSRef:
        return self.loops[0]

    @property
    def body(self) -> ir.Stmt:
        return self.loops[-1].loop.body


@register_primitive
class Merge(Primitive[LoopRV]):
    """Merge the nests of `loops`; the bodies run in the order in which the loops are given."""

    loops: tuple[LoopRV, ...] = given(rest=True, positional=True)

    def run(self, sch: ScheduleCore) -> LoopRV:
        state, loops = sch.state, [sch.get_sref(loop) for loop in self.loops]
        nests, parent = _checked_nests(loops)
        variables = [ir.Var(f"{sref.name}_m", sref.loop.loop_var.dtype) for sref in nests[0].loops]
        old = [[sref.loop.loop_var for sref in nest.loops] for nest in nests]
        bodies = [
            ir.substitute(nest.body, dict(zip(own, variables, strict=True)))
            for nest, own in zip(nests, old, strict=True)
        ]
        _check_dependencies(nests, bodies, variables, parent)
        merged: ir.Stmt = ir.seq(bodies)
        for variable, sref in zip(reversed(variables), reversed(nests[0].loops), strict=True):
            merged = ir.For(variable, sref.loop.min, sref.loop.extent, ir.ForKind.SERIAL, merged)
        last = max(nests, key=lambda nest: nest.top.seq_index)
        body = splice(parent.body, last.top.loop, (merged,))
        for nest in nests:
            if nest is not last:
                body = splice(body, nest.top.loop, ())
        state.set_body(parent, body)
        for _ in variables[1:]:
            merged = merged.body  # type: ignore[attr-defined]
        innermost = state.srefs[merged]  # type: ignore[index]
        _forget(state, innermost)
        return sch.loop_rv(innermost)


def _forget(state: ScheduleState, loop: StmtSRef) -> None:
    """Producers and consumers share loops now, which changes what covers what."""
    root = loop.scope_root
    for sref, info in state.infos.items():
        if sref.parent is not None and sref.scope_root is root:
            info.region_cover = None
    state.info(root).stage_pipeline = None


# --- what must hold -----------------------------------------------------------------------------


def _checked_nests(loops: Sequence[StmtSRef]) -> tuple[list[MergedNest], StmtSRef]:
    if len(loops) < 2:
        raise TooFewLoops(count=len(loops))
    names = ", ".join(repr(loop.name) for loop in loops)
    parent = lowest_common_ancestor(loops)
    if parent in loops:
        raise NestsNotSiblings(*loops, loops=names)
    nests = [_nest_of(loop, parent, loops, names) for loop in loops]
    if len({nest.top for nest in nests}) != len(nests):
        raise NestsNotSiblings(*loops, loops=names)
    first = nests[0]
    for nest in nests:
        loop = nest.loops[-1]
        shared = {"loop": loop.name, "first": first.loops[-1].name}
        if len(nest.loops) != len(first.loops):
            depth, expected = len(nest.loops), len(first.loops)
            raise DifferentDepth(loop, depth=depth, expected=expected, **shared)
        for mine, theirs in zip(nest.loops, first.loops, strict=True):
            if not ir.expr_deep_equal(mine.loop.extent, theirs.loop.extent):
                raise DifferentExtents(
                    loop=mine,
                    first=theirs.name,
                    extent=mine.loop.extent,
                    expected=theirs.loop.extent,
                )
    return nests, parent


def _nest_of(loop: StmtSRef, parent: StmtSRef, loops: Sequence[StmtSRef], names: str) -> MergedNest:
    chain = [loop]
    check_plain_loop(loop)
    while chain[-1].parent is not parent:
        outer, inner = chain[-1].around, chain[-1]
        if not outer.is_loop:
            raise NestsNotSiblings(*loops, loops=names)
        check_plain_loop(outer)
        if outer.loop.body is not inner.stmt:
            raise NotSingleNest(outer=outer, inner=inner)
        chain.append(outer)
    if chain[-1].seq_index < 0:
        raise NestsNotSiblings(*loops, loops=names)
    return MergedNest(tuple(reversed(chain)))


def _check_dependencies(
    nests: Sequence[MergedNest],
    bodies: Sequence[ir.Stmt],
    variables: Sequence[ir.Var],
    parent: StmtSRef,
) -> None:
    """Interleaving, reordering and moving the nests must not change what anybody reads."""
    pairs = zip(variables, nests[0].loops, strict=True)
    domains = {var: sref.loop.domain for var, sref in pairs}
    touched = [interference.accesses_of(body) for body in bodies]
    for later in range(len(nests)):
        for earlier in range(later):
            in_order = nests[earlier].top.seq_index < nests[later].top.seq_index
            for a, b in interference.conflicts(touched[earlier], touched[later]):
                if not in_order or not interference.stays_within_iteration(a, b, domains):
                    first, second = nests[earlier].loops[-1], nests[later].loops[-1]
                    raise NestsDependOnEachOther(first=first, second=second, buffer=a.buffer.name)
    _check_between(nests, parent)


def _check_between(nests: Sequence[MergedNest], parent: StmtSRef) -> None:
    """All nests move to where the last one stands, past the statements in between."""
    body = parent.body
    if not isinstance(body, ir.SeqStmt):
        return
    positions = {nest.top.seq_index for nest in nests}
    last = max(positions)
    for nest in nests:
        moved = interference.accesses_of(nest.top.loop)
        for position in range(nest.top.seq_index + 1, last):
            if position in positions:
                continue
            for a, _ in interference.conflicts(moved, interference.accesses_of(body.seq[position])):
                raise StatementsBetween(nest.top, buffer=a.buffer.name)
