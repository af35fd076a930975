"""`loop_partition`: a loop as several that run over consecutive parts of its range.

Each part gets a copy of the block, all parts together one block around them. These blocks declare
what they access and have iterators for the loops outside, so that they can be scheduled further.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from tilewright import ir
from tilewright.ir.clone import Cloner
from tilewright.schedule.conditions import checks
from tilewright.schedule.conditions.interference import TouchedRegion, accesses_of
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves.init_block import reads_with_writes
from tilewright.schedule.primitives.split import FactorNotPositive
from tilewright.schedule.state import LoopRV, StmtSRef
from tilewright.schedule.state.splice import copy_path, replace_in_parent
from tilewright.schedule.trace.instruction import Primitive, flag, given, register_primitive


class RangeNotConstant(PrimitiveError):
    reason = "loop {loop!r} runs over a range that is not constant"


class SeveralInferredParts(PrimitiveError):
    reason = "{count} factors of loop {loop!r} are None"
    remedy = "at most one part can take what the others leave"


class NothingLeft(PrimitiveError):
    reason = "the factors {factors} of loop {loop!r} make {total}, its extent is {extent}"
    remedy = "the parts must leave at least one iteration for the last one"


class MixedIterators(PrimitiveError):
    reason = "spatial and reduction iterators of block {block!r} are both bound to loop {loop!r}"


class OuterReduction(PrimitiveError):
    reason = "loop {outer!r}, around loop {loop!r}, carries the reduction of block {block!r}"
    remedy = "partition before the reduction loop is moved outside, or decompose the reduction"


@register_primitive
class PartitionLoop(Primitive[list[LoopRV]]):
    """Cut the range of `loop` after each of `factors` iterations; the loops of the parts."""

    kind = "LoopPartition"
    loop: LoopRV = given()
    factors: tuple[int | ir.PrimExpr | None, ...] = given(rest=True)
    preserve_unit_iters: bool = flag()

    def run(self, sch: ScheduleCore) -> list[LoopRV]:
        factors = [None if factor is None else sch.int_of(factor) for factor in self.factors]
        state, loop = sch.state, sch.get_sref(self.loop)
        stmt = loop.loop
        if stmt.annotations or stmt.thread_binding is not None:
            raise checks.LoopHasAnnotations(loop=loop)
        starts = _starts(loop, factors)
        block = checks.only_block_under(state, loop)
        checks.check_names_no_loops(block)
        reduces = _is_reduction_loop(block, loop)
        around = block.loops
        iter_vars, values, renamed = _outer_iterators(
            block, around[: around.index(loop)], loop.name
        )
        parts = [
            _part(loop, block, number, start, end, continues=reduces and number > 0)
            for number, (start, end) in enumerate(itertools.pairwise(starts))
        ]
        name = f"{block.name}_{loop.name}"
        wrapped = [
            _wrap(f"{name}{number}_partition", ir.substitute(part, renamed))
            for number, part in enumerate(parts)
        ]
        whole = _wrap(f"{name}_common", ir.substitute(stmt, renamed)).block
        common = ir.replace(whole, iter_vars=iter_vars, body=ir.SeqStmt(tuple(wrapped)))
        replace_in_parent(state, loop, (ir.BlockRealize(values, ir.TRUE, common),), {})
        return [sch.loop_rv(state.get_sref(realize.block.body)) for realize in wrapped]  # type: ignore[arg-type]


# --- what must hold -----------------------------------------------------------------------------


def _starts(loop: StmtSRef, factors: Sequence[int | None]) -> list[int]:
    """Where each part begins, and the end of the last one."""
    begin, extent = loop.loop.min, loop.loop.extent
    if not isinstance(begin, ir.IntImm) or not isinstance(extent, ir.IntImm):
        raise RangeNotConstant(loop=loop)
    missing = sum(factor is None for factor in factors)
    if missing > 1:
        raise SeveralInferredParts(loop=loop, count=missing)
    for factor in factors:
        if factor is not None and factor <= 0:
            raise FactorNotPositive(loop=loop, factor=factor)
    total = sum(factor for factor in factors if factor is not None)
    rest = extent.value - total
    if rest <= 0:
        raise NothingLeft(loop=loop, factors=list(factors), total=total, extent=extent.value)
    lengths = [rest if factor is None else factor for factor in factors]
    if not missing:
        lengths.append(rest)
    return list(itertools.accumulate(lengths, initial=begin.value))


def _is_reduction_loop(block: StmtSRef, loop: StmtSRef) -> bool:
    variable = loop.loop.loop_var
    realize = block.realize
    kinds = {
        iter_var.iter_type is ir.IterType.COMM_REDUCE
        for iter_var, value in realize.bindings
        if ir.uses_var(value, variable.same_as)
    }
    if len(kinds) > 1:
        raise MixedIterators(block=block, loop=loop)
    return kinds == {True} and realize.block.init is not None


# --- the new program ----------------------------------------------------------------------------


def _outer_iterators(
    block: StmtSRef, outside: Sequence[StmtSRef], inner: str
) -> tuple[tuple[ir.IterVar, ...], tuple[ir.PrimExpr, ...], dict[ir.Var, ir.PrimExpr]]:
    """Iterators of the new block for the loops around it that the old block is bound to."""
    realize = block.realize
    iter_vars, values = [], []
    renamed: dict[ir.Var, ir.PrimExpr] = {}
    for sref in outside:
        loop = sref.loop
        kinds = {
            iter_var.iter_type
            for iter_var, value in realize.bindings
            if ir.uses_var(value, loop.loop_var.same_as)
        }
        if ir.IterType.COMM_REDUCE in kinds and realize.block.init is not None:
            raise OuterReduction(outer=sref, loop=inner, block=block)
        variable = ir.Var(f"v{loop.loop_var.name}", loop.loop_var.dtype)
        iter_vars.append(ir.IterVar(loop.domain, variable, checks.common_iter_type(kinds)))
        values.append(loop.loop_var)
        renamed[loop.loop_var] = variable
    return tuple(iter_vars), tuple(values), renamed


def _part(
    loop: StmtSRef, block: StmtSRef, number: int, start: int, end: int, *, continues: bool
) -> ir.Stmt:
    """A copy of the loop over `[start, end)`; one that continues a reduction has no init."""
    realize = block.realize
    stmt = ir.replace(realize.block, name_hint=f"{block.name}_{loop.name}{number}")
    if continues:
        stmt = ir.replace(stmt, init=None, reads=reads_with_writes(stmt))
    nest: ir.For = Cloner().rewrite(copy_path(loop, block, ir.replace(realize, block=stmt)))  # type: ignore[assignment]
    old, dtype = nest.loop_var, nest.loop_var.dtype
    variable = ir.Var(f"{loop.name}{number}", dtype)
    return ir.For(
        variable,
        ir.const(start, dtype),
        ir.const(end - start, dtype),
        nest.kind,
        ir.substitute(nest.body, {old: variable}),
    )


def _wrap(name: str, body: ir.Stmt) -> ir.BlockRealize:
    """A block without iterators around a statement."""
    accesses = accesses_of(body)
    reads = _regions(access for access in accesses if not access.is_write)
    writes = _regions(access for access in accesses if access.is_write)
    return ir.BlockRealize((), ir.TRUE, ir.Block((), reads, writes, name, body))


def _regions(accesses: Iterable[TouchedRegion]) -> tuple[ir.BufferRegion, ...]:
    """One region a buffer; accesses of different places of it count as all of it."""
    by_buffer: dict[ir.Buffer, ir.BufferRegion] = {}
    for access in accesses:
        buffer = access.buffer
        whole = ir.BufferRegion.full(buffer)
        region = ir.BufferRegion(buffer, tuple(map(_inside, access.region, whole.region)))
        known = by_buffer.setdefault(buffer, region)
        if not ir.expr_deep_equal(known, region):
            by_buffer[buffer] = whole
    return tuple(by_buffer.values())


def _inside(part: ir.Range | None, whole: ir.Range) -> ir.Range:
    """The part of a dimension that is accessed; what guards keep from running is no part of it."""
    if part is None:
        return whole
    numbers = [part.min, part.extent, whole.extent]
    if not all(isinstance(number, ir.IntImm) for number in numbers):
        return part
    begin, length, extent = (number.value for number in numbers)  # type: ignore[attr-defined]
    first, end = max(begin, 0), min(begin + length, extent)
    if (first, end) == (begin, begin + length) or first >= end:
        return part
    return ir.Range(ir.const(first, part.min.dtype), ir.const(end - first, part.extent.dtype))
