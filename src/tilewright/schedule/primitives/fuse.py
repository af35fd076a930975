"""`fuse`: nested loops into one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tilewright.ir import For, ForKind, IntImm, PrimExpr, Range, Var, const, uses_var
from tilewright.schedule.conditions.checks import check_plain_loop
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves.bindings import BindingRewriter, domains_above, simplify_bindings
from tilewright.schedule.state import LoopRV, StmtSRef
from tilewright.schedule.trace.instruction import Primitive, flag, given, register_primitive


class NothingToFuse(PrimitiveError):
    reason = "no loops were given"


class NotNested(PrimitiveError):
    reason = "loop {inner!r} is not the only statement in loop {outer!r}"
    remedy = "give loops from the outside in, each directly inside the one before"


class ExtentDependsOnLoop(PrimitiveError):
    reason = "the extent of loop {inner!r} depends on loop {outer!r}, which is fused too"


@register_primitive
class Fuse(Primitive[LoopRV]):
    """Fuse `loops`, given from the outside in."""

    moves_blocks = False
    loops: tuple[LoopRV, ...] = given(rest=True, positional=True)
    preserve_unit_iters: bool = flag()

    def run(self, sch: ScheduleCore) -> LoopRV:
        loops = [sch.get_sref(loop) for loop in self.loops]
        state = sch.state
        _check(loops)
        stmts = [loop.loop for loop in loops]
        dtype = stmts[0].loop_var.dtype
        fused = Var("_".join(stmt.loop_var.name for stmt in stmts) + "_fused", dtype)
        values = _digits(fused, stmts)
        extent: PrimExpr = const(1, dtype)
        for stmt in stmts:
            extent = extent * stmt.extent
        domains = domains_above(loops[0])
        domains[fused] = Range(const(0, dtype), extent)
        simple = values
        if len(loops) > 1:
            digits = simplify_bindings(
                list(values.values()), domains, preserve_unit_iters=self.preserve_unit_iters
            )
            state.normal_bindings.update(digits)
            simple = dict(zip(values, digits, strict=True))
        rewriter = BindingRewriter(
            values,
            simple,
            domains,
            preserve_unit_iters=self.preserve_unit_iters,
            normal=state.normal_bindings,
        )
        body = rewriter.rewrite(stmts[-1].body)
        target = For(fused, const(0, dtype), extent, ForKind.SERIAL, body)
        state.replace(loops[0], target, rewriter.reuse)
        return sch.loop_rv(state.srefs[target])


def _check(loops: Sequence[StmtSRef]) -> None:
    if not loops:
        raise NothingToFuse()
    for loop in loops:
        check_plain_loop(loop)
    for outer, inner in itertools.pairwise(loops):
        if outer.loop.body is not inner.stmt:
            raise NotNested(outer=outer, inner=inner)
    for position, inner in enumerate(loops):
        for outer in loops[:position]:
            if uses_var(inner.loop.extent, outer.loop.loop_var.same_as):
                raise ExtentDependsOnLoop(outer=outer, inner=inner)


def _digits(fused: Var, stmts: Sequence[For]) -> dict[Var, PrimExpr]:
    """Each old variable as a digit of the new one; loops of at most one iteration have none."""
    values: dict[Var, PrimExpr] = {}
    below: PrimExpr = const(1, fused.dtype)
    for position, stmt in reversed(list(enumerate(stmts))):
        if isinstance(stmt.extent, IntImm) and stmt.extent.value <= 1:
            values[stmt.loop_var] = const(0, fused.dtype)
            continue
        digit: PrimExpr = fused // below
        values[stmt.loop_var] = digit if position == 0 else digit % stmt.extent
        below = below * stmt.extent
    return values
