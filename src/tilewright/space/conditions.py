"""Which blocks the rules of a space are meant for; nothing here is recorded in a trace."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import Block, BlockRealize, IntImm, IterType, PrimExpr, Range, Var, free_vars
from tilewright.ir.access import inputs_of
from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.schedule import StmtSRef
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.schedule.conditions.checks import is_reduction_block, loop_iter_type
from tilewright.schedule.state.scope import loops_of, scope_root
from tilewright.schedule.state.state import ScheduleState


def is_root(block: StmtSRef) -> bool:
    """True for the root block of a function."""
    return block.parent is None


def is_tiled(block: StmtSRef) -> bool:
    """True when a rule has tiled the block already."""
    return TILING_STRUCTURE in block.block.annotations


def all_iters_spatial(block: Block) -> bool:
    """True when no iterator of the block is a reduction or anything else."""
    return all(iter_var.iter_type is IterType.DATA_PAR for iter_var in block.iter_vars)


def is_spatial_function(state: ScheduleState, block: StmtSRef) -> bool:
    """True when all blocks of the function around `block` have spatial iterators only."""
    function = state.function_of(block)
    return all(
        all_iters_spatial(sref.block)
        for sref in state.srefs.values()
        if sref.is_block and state.function_of(sref) == function
    )


def constant_extent(loop: StmtSRef) -> int | None:
    """The extent of a loop, if it is a number."""
    extent = loop.loop.extent
    return extent.value if isinstance(extent, IntImm) else None


# --- blocks that reuse data ---------------------------------------------------------------------


def needs_multi_level_tiling(block: StmtSRef) -> bool:
    """True for a reduction that reads some element for more than one of its results."""
    if is_root(block) or is_tiled(block):
        return False
    stmt = block.block
    if len(stmt.writes) != 1 or not inputs_of(stmt) or all_iters_spatial(stmt):
        return False
    if not has_trivial_binding(block) or not _reads_each_buffer_once(stmt):
        return False
    return _has_reuse(stmt)


def _reads_each_buffer_once(stmt: Block) -> bool:
    regions = inputs_of(stmt).values()
    buffers = [region.buffer for region in regions]
    constant = all(isinstance(r.extent, IntImm) for region in regions for r in region.region)
    return constant and len(set(buffers)) == len(buffers)


def _has_reuse(stmt: Block) -> bool:
    """True when an input is indexed without one of the spatial iterators."""
    spatial = {
        iter_var.var
        for iter_var in stmt.iter_vars
        if iter_var.iter_type is IterType.DATA_PAR and not _is_single(iter_var.dom)
    }
    result = stmt.writes[0].buffer
    for region in stmt.reads:
        if region.buffer is result:
            continue
        used: set[Var] = set()
        for axis in region.region:
            used.update(free_vars(axis.min))
        if spatial - used:
            return True
    return False


def _is_single(domain: Range | None) -> bool:
    return domain is not None and _is_number(domain.min, 0) and _is_number(domain.extent, 1)


def _is_number(value: PrimExpr, number: int) -> bool:
    return isinstance(value, IntImm) and value.value == number


def runs_never(stmt: Block) -> bool:
    """True when an iterator of a block has no value: there is nothing to do, but for its init."""
    extents = [iter_var.dom.extent for iter_var in stmt.iter_vars if iter_var.dom is not None]
    return any(isinstance(extent, IntImm) and extent.value < 1 for extent in extents)


# --- reductions that are too narrow to fill the machine -----------------------------------------


def needs_rfactor_or_cross_thread_reduction(
    state: ScheduleState, block: StmtSRef, max_parallel_extent: int
) -> bool:
    """True for a reduction whose result alone gives too little work to do in parallel."""
    if is_root(block) or is_tiled(block) or not block.block.writes:
        return False
    if not is_reduction_block(state, block) or not has_trivial_binding(block):
        return False
    lengths = _space_and_reduce_lengths(state, block)
    if lengths is None:
        return False
    space, reduce = lengths
    if needs_multi_level_tiling(block):
        return space < reduce and space <= max_parallel_extent
    return reduce > 1


def _space_and_reduce_lengths(state: ScheduleState, block: StmtSRef) -> tuple[int, int] | None:
    """How many results a reduction has and of how much each; None if the nest is not plain."""
    loops = loops_of(block)
    if not _is_plain_nest(loops, block):
        return None
    lengths = {IterType.DATA_PAR: 1, IterType.COMM_REDUCE: 1}
    kinds = [loop_iter_type(state, loop) for loop in loops]
    if IterType.COMM_REDUCE not in kinds:
        return None
    for loop, kind in zip(loops, kinds, strict=True):
        extent = constant_extent(loop)
        if kind not in lengths or extent is None:
            return None
        lengths[kind] *= extent
    return lengths[IterType.DATA_PAR], lengths[IterType.COMM_REDUCE]


def _is_plain_nest(loops: Sequence[StmtSRef], block: StmtSRef) -> bool:
    """True when each loop holds nothing but the next one, and the last one the block."""
    inner = [*(loop.stmt for loop in loops[1:]), block.stmt]
    bodies = [loop.loop.body for loop in loops]
    return all(
        body is stmt or (isinstance(body, BlockRealize) and body.block is stmt)
        for body, stmt in zip(bodies, inner, strict=True)
    )


def in_root_scope(block: StmtSRef) -> bool:
    """True when the nearest block around `block` is the root of the function."""
    return not is_root(block) and is_root(scope_root(block))
