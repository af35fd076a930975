"""`rolling_buffer`: keep only the part of a buffer that later iterations still need.

A producer inside a consumer's loop computes a window that moves with the loop. Windows of
consecutive iterations overlap: the overlap is not computed again, and the buffer shrinks to one
window, in which positions are taken modulo its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import arith, ir
from tilewright.schedule.conditions.checks import why_not_complete, why_not_reduction
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.layouts import allocated_buffer
from tilewright.schedule.state import BlockInfo, BlockRV, Domains, Exprs, ScheduleState, StmtSRef
from tilewright.schedule.state.flags import region_cover
from tilewright.schedule.state.scope import DepKind, domains_of, lowest_common_ancestor
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive

_POSITIONS = (ir.IterType.DATA_PAR, ir.IterType.OPAQUE)


class NoSuchWrite(PrimitiveError):
    reason = "block {block!r} writes {count} buffers, none has number {index}"


class NotAnIntermediate(PrimitiveError):
    reason = "buffer {buffer!r}, which block {block!r} writes, is not allocated in its scope"


class NotAProducer(PrimitiveError):
    reason = "block {block!r} cannot be a producer of a rolling buffer: {why}"


class NoCommonLoop(PrimitiveError):
    reason = "block {block!r} and the consumers of {buffer!r} have no loop in common"
    remedy = "use compute_at to bring the block into a loop of its consumer"


class NothingRolls(PrimitiveError):
    reason = "no dimension of {buffer!r} moves along with a loop in overlapping windows: {why}"


@dataclass(frozen=True)
class RollingWindow:
    """How the produced region moves in one dimension."""

    axis: int
    size: int
    overlap: int
    loop: ir.For
    depth: int  # of the loop, outermost is 0
    last: ir.PrimExpr  # where in the window a run of the block ends, in terms of loops


@register_primitive
class RollingBuffer(Primitive[None]):
    """Shrink the buffer that `block` writes to the window its consumers need."""

    block: BlockRV = given()
    write_buffer_index: int

    def run(self, sch: ScheduleCore) -> None:
        state, block = sch.state, sch.get_sref(self.block)
        region = _written_region(block, sch.int_of(self.write_buffer_index))
        buffer = region.buffer
        owner = allocated_buffer.allocating_block(block, buffer)
        if owner is not block.scope_root:
            raise NotAnIntermediate(block=block, buffer=buffer.name)
        consumers = _consumers(state, block, buffer)
        loop = lowest_common_ancestor([block, *consumers])
        if not loop.is_loop:
            raise NoCommonLoop(*consumers, block=block, buffer=buffer.name)
        windows = _windows(block, region, loop)
        outermost = min(windows, key=lambda window: window.depth)
        allocated_buffer.change_allocation(
            state, owner, _Roller(buffer, outermost, block.block, _guard(windows))
        )
        for sref in (block, *consumers):
            state.infos[sref] = BlockInfo()
        state.info(owner).stage_pipeline = None


# --- what must hold -----------------------------------------------------------------------------


def _written_region(block: StmtSRef, write_index: int) -> ir.BufferRegion:
    writes = block.block.writes
    if not 0 <= write_index < len(writes):
        raise NoSuchWrite(block=block, count=len(writes), index=write_index)
    return writes[write_index]


def _consumers(state: ScheduleState, block: StmtSRef, buffer: ir.Buffer) -> list[StmtSRef]:
    scope = state.scope_of(block.scope_root)
    # Rolling another buffer along the same loop made iterators opaque; they still tell positions.
    if why_not_complete(scope, block, _POSITIONS) and (
        why := why_not_reduction(state, scope, block, _POSITIONS)
    ):
        raise NotAProducer(block=block, why=why)
    dependencies = [*scope.from_block(block), *scope.to_block(block)]
    if any(dependency.kind is not DepKind.RAW for dependency in dependencies):
        why = "other blocks write what it reads or writes"
        raise NotAProducer(block=block, why=why)
    consumers = [
        dependency.dst
        for dependency in scope.from_block(block)
        if any(region.buffer is buffer for region in dependency.dst.block.reads)
    ]
    if not consumers:
        raise NotAProducer(block=block, why=f"nothing reads {buffer.name!r}")
    for consumer in consumers:
        if not region_cover(state, consumer):
            why = f"block {consumer.name!r} reads more than the same iteration has produced"
            raise NotAProducer(consumer, block=block, why=why)
        if consumer.block.match_buffers or block.block.match_buffers:
            raise NotAProducer(consumer, block=block.name, why="match_buffer is used")
    return list(dict.fromkeys(consumers))


def _windows(block: StmtSRef, region: ir.BufferRegion, common: StmtSRef) -> list[RollingWindow]:
    """The dimensions in which the produced region moves along with a loop and overlaps itself."""
    realize, loops = block.realize, block.loops
    outer = [sref.loop for sref in loops if sref.holds(common)]
    inner = domains_of(sref.loop for sref in loops[len(outer) :])
    produced = ir.substitute(region, realize.values)
    analyzer = arith.Analyzer(domains_of(outer))
    bounds = _bounds(block, produced, inner, analyzer)
    windows = []
    for axis, (bound, point) in enumerate(zip(bounds, produced.region, strict=True)):
        if not (bound.has_lower_bound and bound.has_upper_bound):
            raise _nothing(block, region.buffer, f"the region in dimension {axis} is unbounded")
        span = arith.to_range(bound, analyzer)
        last = point.min + point.extent - 1
        window = _window(block, region.buffer, axis, span, last, outer, analyzer)
        if window is not None:
            windows.append(window)
    if len({window.depth for window in windows}) != len(windows):
        raise _nothing(block, region.buffer, "two dimensions move along with the same loop")
    if not windows:
        raise _nothing(block, region.buffer, "windows of consecutive iterations do not overlap")
    return windows


def _bounds(
    block: StmtSRef, produced: ir.BufferRegion, inner: Domains, analyzer: arith.Analyzer
) -> list[arith.IntervalSet]:
    """What one iteration of the common loops produces, apart from what none ever does.

    A condition on positions leaves out the same elements in every iteration. Any other one cuts
    the window, and where that happens must be known: what it leaves out is not there for the next.
    """
    realize = block.realize
    cuts = [
        part
        for part in ir.conjuncts(realize.predicate)
        if not _tells_positions(part, realize.iter_values, analyzer)
    ]
    if not cuts:
        return arith.estimate_region_upper_bound(produced.region, inner, analyzer=analyzer)
    bounds = None
    if all(ir.uses_var(part, inner.__contains__) for part in cuts):
        bounds = arith.estimate_region_strict_bound(
            produced.region, inner, ir.logical_and(*cuts), analyzer
        )
    if bounds is None:
        why = f"`{cuts[0]}` cuts windows at places that are not known"
        raise _nothing(block, produced.buffer, why)
    return bounds


def _tells_positions(condition: ir.PrimExpr, iter_values: Exprs, analyzer: arith.Analyzer) -> bool:
    """Whether a condition compares a single iterator of the block with a constant."""
    if not isinstance(condition, ir.LT | ir.LE | ir.GT | ir.GE):
        return False
    gap = condition.a - condition.b
    return any(
        isinstance(analyzer.simplify(rest), ir.IntImm)
        for value in iter_values
        for rest in (gap - value, gap + value)
    )


def _nothing(block: StmtSRef, buffer: ir.Buffer, why: str) -> NothingRolls:
    return NothingRolls(block, buffer=buffer.name, why=why)


def _window(
    block: StmtSRef,
    buffer: ir.Buffer,
    axis: int,
    span: ir.Range,
    last: ir.PrimExpr,
    outer: Sequence[ir.For],
    analyzer: arith.Analyzer,
) -> RollingWindow | None:
    if isinstance(span.min, ir.IntImm):
        return None  # it does not move
    moving = _moving(span.min)
    depth = next((d for d, loop in enumerate(outer) if moving and loop.loop_var is moving[0]), -1)
    if moving is None or depth < 0:
        why = f"dimension {axis} starts at `{span.min}`, not at steps of one loop variable"
        raise _nothing(block, buffer, why)
    if not isinstance(span.extent, ir.IntImm):
        why = f"dimension {axis} has windows of `{span.extent}`, not all of one size"
        raise _nothing(block, buffer, why)
    loop, step, size = outer[depth], moving[1], span.extent.value
    overlap = size - step
    if overlap <= 0:
        return None
    sequential = loop.kind in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED)
    if not sequential or not ir.is_zero(loop.min):
        why = f"the iterations of loop {loop.loop_var.name!r} do not run in order from 0"
        raise _nothing(block, buffer, why)
    return RollingWindow(axis, size, overlap, loop, depth, analyzer.simplify(last - span.min))


def _moving(begin: ir.PrimExpr) -> tuple[ir.Var, int] | None:
    """(loop variable, longest step) of a start like `var * stride // divisor + constant`.

    Where the steps are of different lengths, what a short one leaves in place is computed twice.
    """
    match begin:
        case ir.Var():
            return begin, 1
        case ir.Add(a=rest, b=ir.IntImm()):
            return _moving(rest)
        case ir.Mul(a=rest, b=ir.IntImm(value=stride)) if stride > 0:
            moving = _moving(rest)
            return moving and (moving[0], moving[1] * stride)
        case ir.FloorDiv(a=rest, b=ir.IntImm(value=divisor)) if divisor > 0:
            moving = _moving(rest)
            return moving and (moving[0], -(-moving[1] // divisor))
    return None


def _guard(windows: Sequence[RollingWindow]) -> ir.PrimExpr:
    """Compute only what the iteration before has not computed.

    A block that produces several elements at once runs again if one of them is new.
    """
    parts = []
    for window in windows:
        variable = window.loop.loop_var
        first = ir.less(variable, ir.const(1, variable.dtype))
        fresh = ir.less_equal(ir.const(window.overlap, window.last.dtype), window.last)
        parts.append(ir.logical_or(first, fresh))
    return ir.logical_and(*parts)


# --- the new program ----------------------------------------------------------------------------


class _Roller(allocated_buffer.AllocationChanger):
    """Shrinks the buffer, wraps the indices, guards the producer, marks the rolled iterators."""

    def __init__(
        self, buffer: ir.Buffer, window: RollingWindow, producer: ir.Block, guard: ir.PrimExpr
    ) -> None:
        extent = ir.const(window.size, buffer.shape[window.axis].dtype)
        self._axis = window.axis
        self._size = extent
        shape = (*buffer.shape[: window.axis], extent, *buffer.shape[window.axis + 1 :])
        super().__init__(buffer, ir.replace(buffer, shape=shape))
        self._old = buffer
        self._loop_var = window.loop.loop_var
        self._producer = producer
        self._guard = guard

    def with_buffer(self, node: Any) -> Any:
        if node.buffer is not self._old:
            return super().with_buffer(node)
        new = self.buffers[self._old]
        if isinstance(node, ir.BufferRegion):
            return ir.BufferRegion(new, self._wrapped_region(node.region))
        axis, indices = self._axis, node.indices
        rolled = ir.floormod(indices[axis], self._size)
        indices = (*indices[:axis], rolled, *indices[axis + 1 :])
        return ir.replace(node, buffer=new, indices=indices)

    def _wrapped_region(self, region: tuple[ir.Range, ...]) -> tuple[ir.Range, ...]:
        axis = self._axis
        dimension = region[axis]
        if ir.is_one(dimension.extent):
            rolled = ir.Range(ir.floormod(dimension.min, self._size), dimension.extent)
        else:
            rolled = ir.Range(ir.const(0, self._size.dtype), self._size)
        return (*region[:axis], rolled, *region[axis + 1 :])

    def visit_block_realize(self, node: ir.BlockRealize) -> ir.BlockRealize:
        block: ir.Block = self.visit(node.block)
        predicate = node.predicate
        if node.block is self._producer:
            predicate = ir.logical_and(predicate, self._guard)
        rolled = [ir.uses_var(value, self._loop_var.same_as) for value in node.iter_values]
        if any(rolled):  # the order of iterations counts along the loop that rolls
            iter_vars = tuple(
                ir.replace(iter_var, iter_type=ir.IterType.OPAQUE) if moves else iter_var
                for iter_var, moves in zip(block.iter_vars, rolled, strict=True)
            )
            block = self.reuse[node.block] = ir.replace(block, iter_vars=iter_vars)
        return ir.BlockRealize(node.iter_values, predicate, block)
