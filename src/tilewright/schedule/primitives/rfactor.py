"""`rfactor`: a reduction in two steps, the first of which is parallel over one loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import arith, ir
from tilewright.ir.access import inputs_of
from tilewright.schedule.conditions import checks
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves import block_iterators
from tilewright.schedule.moves.init_block import in_copies
from tilewright.schedule.state import BlockInfo, BlockRV, Exprs, LoopRV, ScheduleState, StmtSRef
from tilewright.schedule.state.scope import domains_of
from tilewright.schedule.state.splice import splice
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive
from tilewright.te.emit import store_together
from tilewright.te.reducers import Reduction, recognize_reduction


class LoopNotSerial(PrimitiveError):
    reason = "loop {loop!r} is not a serial loop"


class NotReductionLoop(PrimitiveError):
    reason = "loop {loop!r} is not a loop of the reduction of block {block!r}: {why}"
    remedy = "give a loop that only reduction iterators are bound to"


class MixedLoop(PrimitiveError):
    reason = "spatial and reduction iterators of block {block!r} are both bound to loop {loop!r}"


class NotFirstBlock(PrimitiveError):
    reason = "block {block!r} is not the first block under loop {loop!r}"
    remedy = "the factored block runs before that loop, ahead of the blocks in front of {block!r}"


class SharedReductionLoop(PrimitiveError):
    reason = "other statements share the reduction loop {loop!r} with block {block!r}"


class UnboundLoopInside(PrimitiveError):
    reason = (
        "no iterator of block {block!r} is bound to loop {loop!r}, which lies inside reduction "
        "loops and runs more than once"
    )


class ExtentOfOtherLoops(PrimitiveError):
    reason = "the extent `{extent}` of reduction loop {loop!r} depends on other loops"
    remedy = "the number of partial results must be the same in all their iterations"


class UnknownReducer(PrimitiveError):
    reason = "the update of block {block!r} is not a known commutative reduction from its identity"
    remedy = "known are sums, products, min, max, pairs of sums, argmin and argmax"


class FactorAxisOutOfRange(PrimitiveError):
    reason = "factor_axis {axis} is out of range for {buffer!r} of {ndim} dimensions"
    remedy = "use {low} to {high}"


class InputsWrittenInNest(PrimitiveError):
    reason = "block {writer!r}, under loop {loop!r} too, writes {buffer!r}, which {block!r} reads"


class PartNeverInitialized(PrimitiveError):
    reason = (
        "the condition {predicate} may hold for no iteration of block {block!r} at some value of "
        "loop {loop!r}"
    )
    remedy = "split the reduction so that no iteration of the factored loop is empty"


@dataclass(frozen=True)
class ReductionNest:
    """The block with the loops around it, sorted by what they are for."""

    block: StmtSRef
    realize: ir.BlockRealize
    loops: tuple[StmtSRef, ...]
    spatial: frozenset[ir.Var]  # loops that spatial iterators are bound to
    reducing: frozenset[ir.Var]  # loops that reduction iterators are bound to
    factored: ir.For


@register_primitive
class RFactor(Primitive[BlockRV]):
    """Reduce each iteration of `loop` by itself, then the results."""

    method = "rfactor"
    loop: LoopRV = given()
    factor_axis: int

    def run(self, sch: ScheduleCore) -> BlockRV:
        axis = sch.int_of(self.factor_axis)
        state, loop = sch.state, sch.get_sref(self.loop)
        nest = _check_nest(state, loop)
        if (reduction := recognize_reduction(nest.realize.block)) is None:
            raise UnknownReducer(block=nest.block)
        position = _checked_axis(axis, reduction, nest.block)
        final_predicate = _final_predicate(nest)
        buffers = [
            _factored_buffer(s.buffer, nest.factored.extent, position) for s in reduction.targets
        ]
        partial = _partial_block(nest, reduction, buffers, position)
        final = _final_block(nest, reduction, buffers, position, final_predicate)
        return sch.block_rv(_install(state, nest, partial, final, buffers))


# --- what must hold -----------------------------------------------------------------------------


def _check_nest(state: ScheduleState, loop: StmtSRef) -> ReductionNest:
    stmt = loop.loop
    if stmt.kind is not ir.ForKind.SERIAL:
        raise LoopNotSerial(loop=loop)
    checks.check_starts_at_zero(loop)
    block = checks.only_block_under(state, loop)
    checks.check_reduction_block(state, block)
    realize, loops = block.realize, block.loops
    spatial, reducing = _loops_by_use(realize, loops)
    nest = ReductionNest(block, realize, tuple(loops), spatial, reducing, stmt)
    _check_factored_loop(nest, loop)
    _check_other_loops(nest)
    _check_neighbours(state, nest)
    return nest


def _loops_by_use(
    realize: ir.BlockRealize, loops: Sequence[StmtSRef]
) -> tuple[frozenset[ir.Var], frozenset[ir.Var]]:
    spatial: set[ir.Var] = set()
    reducing: set[ir.Var] = set()
    for iter_var, value in realize.bindings:
        found = reducing if iter_var.iter_type is ir.IterType.COMM_REDUCE else spatial
        found.update(v for v in (s.loop.loop_var for s in loops) if ir.uses_var(value, v.same_as))
    return frozenset(spatial), frozenset(reducing)


def _check_factored_loop(nest: ReductionNest, loop: StmtSRef) -> None:
    variable = nest.factored.loop_var
    why = ""
    if variable in nest.spatial:
        why = "a spatial iterator is bound to it"
    elif variable not in nest.reducing and not ir.is_one(nest.factored.extent):
        why = "no iterator is bound to it"
    if why:
        raise NotReductionLoop(loop=loop, block=nest.block, why=why)


def _check_other_loops(nest: ReductionNest) -> None:
    inside_reduction = False
    outer = {sref.loop.loop_var for sref in nest.loops}
    for sref in nest.loops:
        loop = sref.loop
        names = {"loop": sref.name, "block": nest.block.name}
        reduces = loop.loop_var in nest.reducing
        if reduces and loop.loop_var in nest.spatial:
            raise MixedLoop(sref, nest.block, **names)
        if reduces and ir.uses_var(loop.extent, outer.__contains__):
            raise ExtentOfOtherLoops(sref, extent=loop.extent, loop=sref.name)
        unbound = not reduces and loop.loop_var not in nest.spatial
        if unbound and inside_reduction and not ir.is_one(loop.extent):
            raise UnboundLoopInside(sref, nest.block, **names)
        inside_reduction = inside_reduction or reduces
        if reduces and isinstance(loop.body, ir.SeqStmt):
            raise SharedReductionLoop(sref, nest.block, **names)


def _check_neighbours(state: ScheduleState, nest: ReductionNest) -> None:
    """The partial reduction runs before the whole nest; nothing in it may come first."""
    top = nest.loops[0]
    first, *others = state.child_blocks(top)
    block = nest.block
    if first is not block:
        raise NotFirstBlock(block=block, loop=top)
    read = {region.buffer for region in inputs_of(block.block).values()}
    for other in others:
        for region in other.block.writes:
            if region.buffer in read:
                raise InputsWrittenInNest(
                    writer=other, loop=top.name, buffer=region.buffer.name, block=block
                )


def _checked_axis(axis: int, reduction: Reduction, block: StmtSRef) -> int:
    buffer = reduction.targets[0].buffer
    ndim = buffer.ndim
    if not -(ndim + 1) <= axis <= ndim:
        raise FactorAxisOutOfRange(
            block, axis=axis, buffer=buffer.name, ndim=ndim, low=-(ndim + 1), high=ndim
        )
    return axis if axis >= 0 else axis + ndim + 1


def _final_predicate(nest: ReductionNest) -> ir.PrimExpr:
    """The conditions that the second step needs too.

    Those on loops that it does not have must leave no partial result without an initial value:
    the first iteration of these loops has to pass them.
    """
    dropped = nest.reducing - {nest.factored.loop_var}
    parts = ir.conjuncts(nest.realize.predicate)
    others = ir.logical_and(*(part for part in parts if ir.uses_var(part, dropped.__contains__)))
    final = ir.logical_and(*(p for p in parts if not ir.uses_var(p, dropped.__contains__)))
    if isinstance(others, ir.IntImm):
        return final
    loops = [sref.loop for sref in nest.loops]
    starts = {loop.loop_var: loop.min for loop in loops if loop.loop_var in dropped}
    analyzer = arith.Analyzer(domains_of(loop for loop in loops if loop.loop_var not in dropped))
    with analyzer.constraint_scope(final):
        if not analyzer.can_prove(ir.substitute(others, starts)):
            raise PartNeverInitialized(
                block=nest.block, loop=nest.factored.loop_var.name, predicate=f"`{others}`"
            )
    return final


# --- the two blocks -----------------------------------------------------------------------------


def _factored_buffer(buffer: ir.Buffer, extent: ir.PrimExpr, axis: int) -> ir.Buffer:
    shape = (*buffer.shape[:axis], extent, *buffer.shape[axis:])
    return ir.decl_buffer(shape, buffer.dtype, f"{buffer.name}.rf", scope=buffer.scope)


def _factored_iterator(loop: ir.For, iter_type: ir.IterType) -> ir.IterVar:
    variable = ir.Var(f"v{loop.loop_var.name}", loop.loop_var.dtype)
    return ir.IterVar(loop.domain, variable, iter_type)


def _partial_iterators(
    nest: ReductionNest,
) -> tuple[tuple[ir.IterVar, ...], tuple[ir.PrimExpr, ...], dict[ir.Var, ir.PrimExpr]]:
    """Iterators of the first block, their bindings, and what the old ones became.

    The factored loop becomes a spatial iterator; loops bound together with it their own.
    """
    variable = nest.factored.loop_var
    factored = _factored_iterator(nest.factored, ir.IterType.DATA_PAR)
    iter_vars, values = [factored], [variable]
    by_loop: dict[ir.Var, ir.PrimExpr] = {variable: factored.var}
    loops = {sref.loop.loop_var: sref.loop for sref in nest.loops}
    renamed: dict[ir.Var, ir.PrimExpr] = {}
    for iter_var, value in nest.realize.bindings:
        if iter_var.iter_type is ir.IterType.COMM_REDUCE and ir.uses_var(value, variable.same_as):
            for used in ir.free_vars(value):
                if used in loops and used not in by_loop:
                    iter_vars.append(_factored_iterator(loops[used], ir.IterType.COMM_REDUCE))
                    values.append(used)
                    by_loop[used] = iter_vars[-1].var
            renamed[iter_var.var] = ir.substitute(value, by_loop)
        else:
            fresh = ir.Var(iter_var.var.name, iter_var.var.dtype)
            iter_vars.append(ir.replace(iter_var, var=fresh))
            values.append(value)  # type: ignore[arg-type]
            renamed[iter_var.var] = fresh
    return tuple(iter_vars), tuple(values), renamed


def _partial_block(
    nest: ReductionNest, reduction: Reduction, buffers: Sequence[ir.Buffer], axis: int
) -> ir.BlockRealize:
    block = nest.realize.block
    iter_vars, values, renamed = _partial_iterators(nest)
    inputs = [ir.substitute(value, renamed) for value in reduction.inputs]
    indices = tuple(ir.substitute(i, renamed) for i in reduction.targets[0].indices)
    indices = (*indices[:axis], iter_vars[0].var, *indices[axis:])
    init: ir.Stmt | None = None
    if any(iter_var.iter_type is ir.IterType.COMM_REDUCE for iter_var in iter_vars):
        init, body = _accumulate(reduction, buffers, indices, inputs)
    else:
        stores = zip(buffers, inputs, strict=True)
        body = ir.seq(ir.BufferStore(buffer, value, indices) for buffer, value in stores)
    targets = {store.buffer for store in reduction.targets}
    made = ir.Block(
        iter_vars,
        tuple(ir.substitute(r, renamed) for r in block.reads if r.buffer not in targets),
        tuple(ir.BufferRegion.from_point(buffer, indices) for buffer in buffers),
        f"{block.name_hint}_rf",
        body,
        init,
        annotations=block_iterators.kept_annotations(block.annotations, renamed),
    )
    return ir.BlockRealize(values, nest.realize.predicate, made)


def _final_block(
    nest: ReductionNest,
    reduction: Reduction,
    buffers: Sequence[ir.Buffer],
    axis: int,
    predicate: ir.PrimExpr,
) -> ir.BlockRealize:
    block = nest.realize.block
    factored = _factored_iterator(nest.factored, ir.IterType.COMM_REDUCE)
    kept = [b for b in nest.realize.bindings if b[0].iter_type is not ir.IterType.COMM_REDUCE]
    iter_vars, renamed = block_iterators.renamed_iterators([iter_var for iter_var, _ in kept])
    indices = tuple(ir.substitute(i, renamed) for i in reduction.targets[0].indices)
    partial = (*indices[:axis], factored.var, *indices[axis:])
    inputs = [ir.BufferLoad(buffer, partial) for buffer in buffers]
    targets = [store.buffer for store in reduction.targets]
    init, body = _accumulate(reduction, targets, indices, inputs)
    made = ir.Block(
        (factored, *iter_vars),
        tuple(ir.BufferRegion.from_point(buffer, partial) for buffer in buffers),
        tuple(ir.substitute(region, renamed) for region in block.writes),
        block.name_hint,
        body,
        init,
        annotations=block_iterators.kept_annotations(block.annotations, renamed, block.iter_vars),
    )
    values = (nest.factored.loop_var, *(value for _, value in kept))
    return ir.BlockRealize(values, predicate, made)


def _accumulate(
    reduction: Reduction,
    buffers: Sequence[ir.Buffer],
    indices: tuple[ir.PrimExpr, ...],
    inputs: Exprs,
) -> tuple[ir.Stmt, ir.Stmt]:
    """The init statement, and the update that combines `buffers[indices]` with `inputs`."""
    start = reduction.reducer.identity([buffer.dtype for buffer in buffers])
    init = ir.seq(
        ir.BufferStore(b, value, indices) for b, value in zip(buffers, start, strict=True)
    )
    old = [ir.BufferLoad(buffer, indices) for buffer in buffers]
    return init, store_together(buffers, reduction.reducer.combine(old, inputs), indices)


# --- the new program ----------------------------------------------------------------------------


def _install(
    state: ScheduleState,
    nest: ReductionNest,
    partial: ir.BlockRealize,
    final: ir.BlockRealize,
    buffers: Sequence[ir.Buffer],
) -> StmtSRef:
    top = nest.loops[0]
    scope = top.around
    old = scope.block
    body = splice(old.body, top.loop, (_partial_nest(nest, partial), _final_nest(nest, final)))
    changed = ir.replace(old, body=body, alloc_buffers=(*old.alloc_buffers, *buffers))
    state.replace(scope, changed, {nest.realize.block: final.block})
    state.infos[nest.block] = BlockInfo()
    state.info(scope).stage_pipeline = None
    return state.srefs[partial.block]


def _partial_nest(nest: ReductionNest, realize: ir.BlockRealize) -> ir.Stmt:
    """All loops again, with variables of their own."""
    loops = [sref.loop for sref in nest.loops]
    renamed = block_iterators.renamed_loops(loops)
    values = tuple(ir.substitute(value, renamed) for value in realize.iter_values)
    predicate = ir.substitute(realize.predicate, renamed)
    return in_copies(loops, renamed, ir.BlockRealize(values, predicate, realize.block))


def _final_nest(nest: ReductionNest, realize: ir.BlockRealize) -> ir.Stmt:
    """The old nest without the loops that the first step has reduced."""
    dropped = nest.reducing - {nest.factored.loop_var}
    child: ir.Stmt = nest.realize.block
    body: ir.Stmt = realize
    for sref in reversed(nest.loops):
        loop = sref.loop
        if loop.loop_var not in dropped:
            body = ir.replace(loop, body=splice(loop.body, child, (body,)))
        child = loop
    return body
