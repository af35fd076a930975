"""Conditions on blocks and loops that primitives check before they touch anything."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from tilewright import arith, ir
from tilewright.ir.access import inputs_of
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.regions.relaxed import RelaxedView, points_at
from tilewright.schedule.state import Domains, ScheduleState, StmtSRef, leaf_realizes
from tilewright.schedule.state.scope import BlockScope, domains_of
from tilewright.schedule.state.sref import upwards

READS_ITS_RESULT = "it reads what it writes"
IterTypes: TypeAlias = tuple[ir.IterType, ...]
_SPATIAL: IterTypes = (ir.IterType.DATA_PAR,)


class LoopHasAnnotations(PrimitiveError):
    reason = "loop {loop!r} has annotations or is bound to a thread"
    remedy = "transform it before annotating or binding it, or unannotate it first"


class LoopDoesNotStartAtZero(PrimitiveError):
    reason = "loop {loop!r} starts at {begin}, not at 0"


class NotCompactDataflow(PrimitiveError):
    reason = (
        "block {block!r} is neither a complete block nor a reduction block under loop {loop!r}: "
        "{why}"
    )
    remedy = "only loops whose blocks compute each of their outputs once can be transformed so"


class NamesLoopsAround(PrimitiveError):
    reason = "block {block!r} uses loop {loop!r} around it directly, not by an iterator of its own"
    remedy = "bind the loop to an iterator of the block"


def check_names_no_loops(
    block: StmtSRef, made: ir.Block | None = None, place: StmtSRef | None = None
) -> None:
    """A block, or what is `made` of it at a place, that knows loops around only by iterators."""
    stmt, loops = made or block.block, all_loops_above(place or block)
    if ir.uses_var(stmt, loops.__contains__):  # one look for all of them: it is asked often
        used = next(loop for loop in loops if ir.uses_var(stmt, loop.same_as))
        raise NamesLoopsAround(block=block, loop=used.name)


def all_loops_above(sref: StmtSRef) -> dict[ir.Var, ir.Range]:
    """The domains of all loops around a block or loop, also around the blocks that hold it."""
    return domains_of(node.stmt for node in upwards(sref.parent) if isinstance(node.stmt, ir.For))


def check_plain_loop(loop: StmtSRef) -> None:
    """A loop that starts at 0, without annotations and thread binding."""
    stmt = loop.loop
    if stmt.annotations or stmt.thread_binding is not None:
        raise LoopHasAnnotations(loop=loop)
    check_starts_at_zero(loop)


def check_starts_at_zero(loop: StmtSRef) -> None:
    """A loop that starts at 0."""
    begin = loop.loop.min
    if not ir.is_zero(begin):
        raise LoopDoesNotStartAtZero(loop=loop, begin=begin)


def has_affine_binding(state: ScheduleState, block: StmtSRef) -> bool:
    """True when the block's iterators take every combination of their values, each once."""
    info = state.info(block)
    if info.affine_binding is None:
        info.affine_binding = compute_affine_binding(block)
    return info.affine_binding


def compute_affine_binding(block: StmtSRef) -> bool:
    """The same from the program as it is now."""
    return block.parent is None or has_affine_binding_below(block, block.loops)


def has_affine_binding_below(block: StmtSRef, loops: Sequence[StmtSRef]) -> bool:
    """The same for the innermost loops around a block while those around them stand still."""
    realize = block.realize
    if not loops:
        return True
    domains = domains_of(loop.loop for loop in loops)
    if any(_depends(domain, domains) for domain in domains.values()):
        return False  # such loops do not make all combinations
    values = realize.iter_values
    distinct = len({id(value) for value in values}) == len(values)
    plain = all(type(value) is ir.Var and value in domains for value in values)
    if distinct and plain and ir.is_true(realize.predicate):
        return True
    view = RelaxedView(realize, [loop.loop for loop in loops])
    if view.is_one_to_one(points_at(values)):
        return True
    found = arith.detect_iter_map(
        values, domains, realize.predicate, arith.IterMapLevel.SURJECTIVE, False
    )
    if len(found.indices) != len(values):
        return not values
    return all(not total.args or ir.is_one(total.args[0].scale) for total in found.indices)


def runs_once(realize: ir.BlockRealize, loops: Sequence[ir.For]) -> bool:
    """True when different iterations of the loops give the iterators different values."""
    domains = domains_of(loops)
    bound = {value for value in realize.iter_values if type(value) is ir.Var}
    if all(variable in bound for variable in domains):
        return True
    values = [_varying_part(value, domains) for value in realize.iter_values]
    found = arith.detect_iter_map(values, domains, ir.TRUE, arith.IterMapLevel.BIJECTIVE)
    return len(found.indices) == len(values)


def _varying_part(value: ir.PrimExpr, variables: Domains) -> ir.PrimExpr:
    """The terms of a sum that depend on the variables: the others shift all values alike."""
    if isinstance(value, ir.Add):
        return _varying_part(value.a, variables) + _varying_part(value.b, variables)
    return value if ir.uses_var(value, variables.__contains__) else ir.const(0, value.dtype)


def _has_ragged_rows(block: StmtSRef) -> bool:
    """True when data say how many values a result adds up, e.g. in the rows of a CSR matrix.

    The loops of the results make every combination once; those of the reductions, which no result
    is bound to, may run as far as data say.
    """
    realize = block.realize
    results = [
        value
        for iter_var, value in zip(block.block.iter_vars, realize.iter_values, strict=True)
        if iter_var.iter_type is ir.IterType.DATA_PAR
    ]
    used = {var for value in results for var in ir.free_vars(value)}
    outer = [loop.loop for loop in block.loops if loop.loop.loop_var in used]
    domains = domains_of(outer)
    if any(_depends(domain, domains) for domain in domains.values()):
        return False
    distinct = len(set(map(id, results))) == len(results)
    if not distinct or not ir.is_true(realize.predicate) or not all(v in domains for v in results):
        return False
    inner = [loop.loop for loop in block.loops if loop.loop.loop_var not in used]
    return all(type(loop.extent) is ir.IntImm or ir.has_load(loop.extent) for loop in inner)


def _depends(domain: ir.Range, loops: Domains) -> bool:
    return type(domain.extent) is not ir.IntImm and ir.uses_var(domain, loops.__contains__)


class NotOneBlock(PrimitiveError):
    reason = "{count} blocks are under loop {loop!r}, expected one"


class NotReductionBlock(PrimitiveError):
    reason = "block {block!r} is not a reduction block: {why}"


class LoopNotAboveBlock(PrimitiveError):
    reason = "loop {loop!r} is not around block {block!r}"
    remedy = "give one of the loops that get_loops returns for the block"


def only_block_under(state: ScheduleState, loop: StmtSRef) -> StmtSRef:
    """The block under a loop, which holds no other."""
    blocks = state.child_blocks(loop)
    if len(blocks) != 1:
        raise NotOneBlock(loop=loop, count=len(blocks))
    return blocks[0]


def check_reduction_block(state: ScheduleState, block: StmtSRef) -> None:
    """A block that reduces."""
    if why := why_not_reduction(state, state.scope_of(block.scope_root), block):
        raise NotReductionBlock(block=block, why=why)


def loops_divided_at(block: StmtSRef, loop: StmtSRef) -> tuple[list[StmtSRef], list[StmtSRef]]:
    """The loops around a block outside of one of them, and those from it on."""
    loops = block.loops
    if loop not in loops:
        raise LoopNotAboveBlock(loop=loop, block=block)
    position = loops.index(loop)
    return loops[:position], loops[position:]


def why_not_complete(scope: BlockScope, block: StmtSRef, spatial: IterTypes = _SPATIAL) -> str:
    """Why a block is no complete block; empty when it is one.

    Iterators of the types `spatial` count as spatial.
    """
    stmt = block.block
    if any(iter_var.iter_type not in spatial for iter_var in stmt.iter_vars):
        return "it has iterators that are not spatial"
    if any(_depends_on_loops(iter_var, block) for iter_var in stmt.iter_vars):
        return "the domains of its iterators depend on loops around it"
    if not _is_dominant(scope, block):
        return "it is not the only writer of what it writes"
    written = {region.buffer for region in stmt.writes}
    if any(region.buffer in written for region in inputs_of(stmt).values()):
        return READS_ITS_RESULT
    return ""


def _depends_on_loops(iter_var: ir.IterVar, block: StmtSRef) -> bool:
    domain = iter_var.dom
    if domain is None or type(domain.extent) is ir.IntImm:
        return False
    return ir.uses_var(domain, all_loops_above(block).__contains__)


def why_not_reduction(
    state: ScheduleState, scope: BlockScope, block: StmtSRef, spatial: IterTypes = _SPATIAL
) -> str:
    """Why a block is no reduction block; empty when it is one."""
    stmt = block.block
    if stmt.init is None:
        return "it has no init statement"
    if not has_affine_binding(state, block) and not _has_ragged_rows(block):
        return "its bindings are not affine"
    kinds = (*spatial, ir.IterType.COMM_REDUCE)
    if any(iter_var.iter_type not in kinds for iter_var in stmt.iter_vars):
        return "it has iterators that are neither spatial nor reductions"
    if not _is_dominant(scope, block):
        return "it is not the only writer of what it writes"
    if _reduction_indexes_output(stmt):
        return "a reduction iterator indexes what it writes"
    return ""


def _is_dominant(scope: BlockScope, block: StmtSRef) -> bool:
    return all(
        len(scope.buffer_writers.get(region.buffer, ())) == 1 for region in block.block.writes
    )


def _reduction_indexes_output(stmt: ir.Block) -> bool:
    reduction = {iv.var for iv in stmt.iter_vars if iv.iter_type is ir.IterType.COMM_REDUCE}
    axes = (axis for region in stmt.writes for axis in region.region)
    return any(ir.uses_var(axis.min, reduction.__contains__) for axis in axes)


def is_complete_block(state: ScheduleState, block: StmtSRef) -> bool:
    """All iterators spatial, the only writer of its outputs, reading none of them."""
    return not why_not_complete(state.scope_of(block.scope_root), block)


def is_reduction_block(state: ScheduleState, block: StmtSRef) -> bool:
    """A block with init and reduction iterators that is the only writer of its outputs."""
    return not why_not_reduction(state, state.scope_of(block.scope_root), block)


def check_compact_dataflow(state: ScheduleState, loop: StmtSRef) -> None:
    """Every block under a loop is complete or a reduction, as far as the loop is concerned."""
    local = local_scope(state, loop)
    for block in local.blocks:
        if why := _why_not_compact(state, local, block):
            raise NotCompactDataflow(block=block, loop=loop, why=why)


def why_not_compact(state: ScheduleState, loop: StmtSRef, block: StmtSRef) -> str:
    """Why a block under a loop is neither complete nor a reduction there; empty if it is one."""
    return _why_not_compact(state, local_scope(state, loop), block)


def _why_not_compact(state: ScheduleState, scope: BlockScope, block: StmtSRef) -> str:
    why = why_not_complete(scope, block)
    return why if why and why_not_reduction(state, scope, block) else ""


def local_scope(state: ScheduleState, loop: StmtSRef) -> BlockScope:
    """The blocks under a loop with their writers counted there only."""
    return state.scope_over([realize.block for realize in leaf_realizes(loop.body)])


def loop_iter_type(state: ScheduleState, loop: StmtSRef) -> ir.IterType:
    """Spatial, reduction or opaque, by what the blocks below bind to the loop."""
    return loop_iter_types(state, [loop])[0]


def loop_iter_types(state: ScheduleState, loops: Sequence[StmtSRef]) -> list[ir.IterType]:
    """The same for loops inside one another, outermost first."""
    kinds: dict[ir.Var, set[ir.IterType]] = {loop.loop.loop_var: set() for loop in loops}
    for block in state.child_blocks(loops[0]) if loops else ():
        realize = block.realize
        for iter_var, value in realize.bindings:
            for var in (value,) if isinstance(value, ir.Var) else ir.free_vars(value):
                if var in kinds:
                    kinds[var].add(iter_var.iter_type)
    return [common_iter_type(found) for found in kinds.values()]


def common_iter_type(kinds: Collection[ir.IterType]) -> ir.IterType:
    """The type of what iterators of these types are bound to; spatial if there are none."""
    if len(kinds) > 1:
        return ir.IterType.OPAQUE
    return next(iter(kinds), ir.IterType.DATA_PAR)
