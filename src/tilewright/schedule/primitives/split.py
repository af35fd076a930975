"""`split`: one loop into several nested ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright import arith, ir
from tilewright.schedule.conditions.checks import check_plain_loop
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves.bindings import BindingRewriter, domains_above
from tilewright.schedule.state import Exprs, LoopRV, ScheduleState, StmtSRef
from tilewright.schedule.state.splice import loop_nest
from tilewright.schedule.trace.instruction import Primitive, flag, given, register_primitive


class NoFactors(PrimitiveError):
    reason = "no factors were given for loop {loop!r}"


class SeveralInferredFactors(PrimitiveError):
    reason = "{count} factors of loop {loop!r} are None"
    remedy = "at most one factor can be inferred"


class FactorNotPositive(PrimitiveError):
    reason = "factor {factor} of loop {loop!r} is not positive"


class ProductTooSmall(PrimitiveError):
    reason = (
        "the factors {factors} of loop {loop!r} make {product}, which is not known to reach its "
        "extent {extent}"
    )
    remedy = "make one factor None to have it inferred"


@register_primitive
class Split(Primitive[list[LoopRV]]):
    """Split `loop`; iterations beyond its extent are guarded unless that is disabled."""

    moves_blocks = False
    loop: LoopRV = given()
    factors: tuple[Any, ...] = given(rest=True)
    # The oldest traces have no flags, those of TVM 0.14 one: the second is written if it is set.
    preserve_unit_iters: bool = flag(default=True)
    disable_predication: bool = flag(default=False, optional=True)

    def run(self, sch: ScheduleCore) -> list[LoopRV]:
        state, loop = sch.state, sch.get_sref(self.loop)
        factors = [None if factor is None else sch.int_of(factor) for factor in self.factors]
        check_plain_loop(loop)
        stmt = loop.loop
        extents = _resolve(loop, factors)
        variables = [
            ir.Var(f"{stmt.loop_var.name}_{position}", stmt.loop_var.dtype)
            for position in range(len(extents))
        ]
        total = math.prod(e.value if isinstance(e, ir.IntImm) else 0 for e in extents)
        exact = isinstance(stmt.extent, ir.IntImm) and total == stmt.extent.value
        value, nested = _recombine(variables, extents), _nest(variables, extents)
        domains = domains_above(loop)
        for variable, extent in zip(variables, extents, strict=True):
            domains[variable] = ir.Range(ir.const(0, variable.dtype), extent)
        predicate = None
        if not exact and not self.disable_predication:
            inside = ir.less(nested, stmt.extent)
            predicate = None if arith.Analyzer(domains).can_prove(inside) else inside
        if exact:
            state.normal_bindings.add(value)
        rewriter = BindingRewriter(
            {stmt.loop_var: nested},
            {stmt.loop_var: value},
            domains,
            preserve_unit_iters=self.preserve_unit_iters,
            predicate=predicate,
            normal=state.normal_bindings,
        )
        nest = list(zip(variables, extents, strict=True))
        body = loop_nest(nest, rewriter.rewrite(stmt.body))
        assert isinstance(body, ir.For)
        state.replace(loop, body, rewriter.reuse)
        return [sch.loop_rv(sref) for sref in _loops_from(state, body, len(variables))]


def _resolve(loop: StmtSRef, factors: Sequence[int | None]) -> list[ir.PrimExpr]:
    stmt = loop.loop
    dtype = stmt.loop_var.dtype
    if not factors:
        raise NoFactors(loop=loop)
    missing = sum(factor is None for factor in factors)
    if missing > 1:
        raise SeveralInferredFactors(loop=loop, count=missing)
    for factor in factors:
        if factor is not None and factor <= 0 and not (factor == -1 and missing == 0):
            raise FactorNotPositive(loop=loop, factor=factor)
    known = [None if factor in (None, -1) else factor for factor in factors]
    product = math.prod(factor for factor in known if factor is not None)
    if None in known:
        inferred = (stmt.extent + (product - 1)) // product
        return [inferred if f is None else ir.const(f, dtype) for f in known]
    if not _reaches(product, stmt.extent):
        raise ProductTooSmall(loop=loop, factors=list(factors), product=product, extent=stmt.extent)
    return [ir.const(factor, dtype) for factor in known if factor is not None]


def _reaches(product: int, extent: ir.PrimExpr) -> bool:
    if isinstance(extent, ir.IntImm):
        return product >= extent.value
    return arith.Analyzer().can_prove(extent <= product)


def _recombine(variables: Sequence[ir.Var], extents: Exprs) -> ir.PrimExpr:
    """The old loop variable in terms of the new ones: `v0 * (e1 * e2) + v1 * e2 + v2`."""
    total: ir.PrimExpr | None = None
    for position, variable in enumerate(variables):
        stride: ir.PrimExpr = ir.const(1, variable.dtype)
        for extent in extents[position + 1 :]:
            stride = stride * extent
        term = variable * stride
        total = term if total is None else total + term
    assert total is not None
    return total


def _nest(variables: Sequence[ir.Var], extents: Exprs) -> ir.PrimExpr:
    """The same number written inside out: `(v0 * e1 + v1) * e2 + v2`."""
    total: ir.PrimExpr = variables[0]
    for variable, extent in zip(variables[1:], extents[1:], strict=True):
        total = total * extent + variable
    return total


def _loops_from(state: ScheduleState, nest: ir.Stmt, count: int) -> list[StmtSRef]:
    loops = []
    for _ in range(count):
        assert isinstance(nest, ir.For)
        loops.append(state.srefs[nest])
        nest = nest.body
    return loops
