"""Blocks, and conditions on them, that rules share; nothing here is recorded in a trace.

A function `why_not_...` returns the reason why a block does not meet a condition, empty if it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tilewright import ir
from tilewright.ir import annotation_keys as keys
from tilewright.ir.access import inputs_of
from tilewright.nest.block_loops import nest_above
from tilewright.nest.block_nest import BlockNest
from tilewright.nest.loops import known_extent
from tilewright.schedule import Schedule, ScheduleState, StmtSRef
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.schedule.conditions.checks import is_reduction_block
from tilewright.schedule.primitives.get_blocks import neighbours


def is_root(block: StmtSRef) -> bool:
    """True for the root block of a function."""
    return block.parent is None


def is_tiled(block: StmtSRef) -> bool:
    """True when a rule has tiled the block already."""
    return keys.TILING_STRUCTURE in block.block.annotations


def why_not_free(block: StmtSRef) -> str:
    """Why rules that schedule a whole block leave this one alone."""
    if is_root(block):
        return "it is the root block"
    return "another rule has taken care of it already" if is_tiled(block) else ""


UNUSUAL_BINDING: Final = "its iterators are not simply its loops"
NO_REDUCTION: Final = "it is not a reduction"


def all_iters_spatial(block: ir.Block) -> bool:
    """True when no iterator of the block is a reduction or anything else."""
    return all(iter_var.iter_type is ir.IterType.DATA_PAR for iter_var in block.iter_vars)


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
    return known_extent(loop.loop)


# --- blocks that reuse data ---------------------------------------------------------------------


def needs_multi_level_tiling(block: StmtSRef) -> bool:
    """True for a reduction that reads some element for more than one of its results."""
    return not why_not_multi_level_tiling(block)


def why_not_multi_level_tiling(block: StmtSRef) -> str:
    """Why a block is no reduction that reads some element for more than one of its results."""
    stmt = block.block
    if taken := why_not_free(block):
        return taken
    if all_iters_spatial(stmt):
        return NO_REDUCTION
    if len(stmt.writes) != 1:
        return "it writes more than one buffer"
    if not inputs_of(stmt):
        return "it reads nothing"
    if not has_trivial_binding(block):
        return UNUSUAL_BINDING
    if not _reads_each_buffer_once(stmt) or not _has_reuse(stmt):
        return "no element of its inputs is used for more than one result"
    return ""


def _reads_each_buffer_once(stmt: ir.Block) -> bool:
    regions = inputs_of(stmt).values()
    buffers = [region.buffer for region in regions]
    constant = all(isinstance(r.extent, ir.IntImm) for region in regions for r in region.region)
    return constant and len(set(buffers)) == len(buffers)


def _has_reuse(stmt: ir.Block) -> bool:
    """True when an input is indexed without one of the spatial iterators."""
    nest = BlockNest(stmt)
    spatial = {nest.iters[n] for n in nest.spatial if nest.extents[n] != 1}
    return any([spatial - operand.variables for operand in nest.operands.values()])


def runs_never(stmt: ir.Block) -> bool:
    """True when an iterator of a block has no value: there is nothing to do, but for its init."""
    return any((extent := known_extent(v)) is not None and extent < 1 for v in stmt.iter_vars)


# --- reductions that are too narrow to fill the machine -----------------------------------------


def why_not_split_reduction(state: ScheduleState, block: StmtSRef, max_parallel_extent: int) -> str:
    """Why a block is no reduction whose results alone give too little work to do in parallel."""
    if taken := why_not_free(block):
        return taken
    if not block.block.writes or not is_reduction_block(state, block):
        return NO_REDUCTION
    if not has_trivial_binding(block):
        return UNUSUAL_BINDING
    space, reduce = _space_and_reduce_lengths(block) or (1, 1)
    if needs_multi_level_tiling(block):
        is_narrow = space < reduce and space <= max_parallel_extent
    else:
        is_narrow = reduce > 1
    return "" if is_narrow else "its results alone give enough work to run in parallel"


def _space_and_reduce_lengths(block: StmtSRef) -> tuple[int, int] | None:
    """How many results a reduction has and of how much each; None if the nest is not plain."""
    nest = BlockNest(block.block)
    is_chain = all([loop.has_one_child and loop.extent is not None for loop in nest_above(block)])
    if not nest.is_plain or not nest.depth or not is_chain:
        return None
    return nest.points(nest.spatial), nest.points(nest.depth)


def in_root_scope(block: StmtSRef) -> bool:
    """True when the nearest block around `block` is the root of the function."""
    return not is_root(block) and is_root(block.scope_root)


def blocks_in_order(state: ScheduleState) -> Iterator[tuple[str, StmtSRef]]:
    """All blocks but the roots in program order, inner ones after outer ones, with their function.

    The program must not change while this runs.
    """
    for function, root in state.roots.items():
        for block in _below(state, root):
            yield function, block


def _below(state: ScheduleState, block: StmtSRef) -> Iterator[StmtSRef]:
    for child in state.child_blocks(block):
        yield child
        yield from _below(state, child)


def blocks_inner_first(state: ScheduleState, block: StmtSRef) -> Iterator[StmtSRef]:
    """The blocks below another one in program order, inner ones before outer ones."""
    for child in state.child_blocks(block):
        yield from blocks_inner_first(state, child)
        yield child


def all_before(
    sch: Schedule, block: StmtSRef, stop_at: Callable[[StmtSRef], bool] = lambda other: False
) -> list[StmtSRef]:
    """All producers of a block, direct or not, the last one in the program first.

    Blocks that `stop_at` names are left out, and whatever only they read.
    """
    found: dict[StmtSRef, None] = {}
    waiting = [block]
    while waiting:
        for other in neighbours(sch, waiting.pop(), before=True):
            if other not in found and not stop_at(other):
                found[other] = None
                waiting.append(other)
    order = [sref for sref in sch.state.srefs.values() if sref in found]
    return sorted(order, key=_position, reverse=True)


def _position(block: StmtSRef) -> int:
    """Where a block stands among the statements of its function."""
    top = block
    while top.parent is not None and top.parent.parent is not None:
        top = top.parent
    return top.seq_index
