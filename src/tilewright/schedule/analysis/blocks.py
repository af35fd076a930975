"""Predicates on blocks that schedule rules ask."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import ir
from tilewright.schedule.conditions.checks import has_affine_binding
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.state import BlockRV, StmtSRef

__all__ = [
    "has_block", "is_spatial", "has_reduction_iter", "is_affine", "is_output_block",
    "writes_output", "is_trivial_binding", "has_trivial_binding", "has_if_then_else",
    "AccessPattern", "analyze_read_write_pattern", "is_write_cache",
]  # fmt: skip

_IF_THEN_ELSE = ir.Op.get("tir.if_then_else")


def has_block(sch: ScheduleCore, block_name: str) -> bool:
    """True when a function of the module has a block of that name."""
    return any(sref.is_block and sref.name == block_name for sref in sch.state.srefs.values())


def is_spatial(sch: ScheduleCore, block: BlockRV) -> bool:
    """True when all iterators of a block are spatial."""
    iter_vars = sch.get_sref(block).block.iter_vars
    return all(iter_var.iter_type is ir.IterType.DATA_PAR for iter_var in iter_vars)


def has_reduction_iter(sch: ScheduleCore, block: BlockRV) -> bool:
    """True when a block has a reduction iterator."""
    iter_vars = sch.get_sref(block).block.iter_vars
    return any(iter_var.iter_type is ir.IterType.COMM_REDUCE for iter_var in iter_vars)


def is_affine(sch: ScheduleCore, block: BlockRV) -> bool:
    """True when the bindings of a block form an affine map of the loops around it."""
    return has_affine_binding(sch.state, sch.get_sref(block))


def is_output_block(sch: ScheduleCore, block: BlockRV) -> bool:
    """True when a block writes something that outlives its scope."""
    return writes_output(sch.get_sref(block))


def writes_output(block: StmtSRef) -> bool:
    """The same for a reference."""
    own = set(block.scope_root.block.alloc_buffers)
    return any(region.buffer not in own for region in block.block.writes)


def is_trivial_binding(sch: ScheduleCore, block: BlockRV) -> bool:
    """True when each iterator of a block is one loop around it, in order."""
    return has_trivial_binding(sch.get_sref(block))


def has_trivial_binding(block: StmtSRef) -> bool:
    """The same for a reference."""
    loops, values = block.loops, block.realize.iter_values
    return len(loops) == len(values) and all(
        loop.loop.loop_var is value for loop, value in zip(loops, values, strict=True)
    )


def has_if_then_else(node: ir.Node) -> bool:
    """True when something below depends on a condition: predicates, branches, selections."""
    return any(
        isinstance(each, ir.IfThenElse | ir.Select)
        or (isinstance(each, ir.BlockRealize) and not ir.is_true(each.predicate))
        or (isinstance(each, ir.Call) and each.op is _IF_THEN_ELSE)
        for each in ir.walk(node)
    )


# --- how reads relate to writes -----------------------------------------------------------------


@dataclass(frozen=True)
class AccessPattern:
    """How the indices of a read follow from those of a write; all False if they do not."""

    exists: bool = False
    surjective: bool = False  # every write index is used
    injective: bool = False  # none is used twice
    ordered: bool = False  # in the order of the write
    no_const_read: bool = False
    no_shift_read: bool = False


def analyze_read_write_pattern(read: ir.BufferRegion, write: ir.BufferRegion) -> AccessPattern:
    """Compare a read of single elements with a write of single elements."""
    written = _points(write)
    wanted = _points(read)
    if written is None or wanted is None:
        return AccessPattern()
    places = {
        index: position for position, index in enumerate(written) if isinstance(index, ir.Var)
    }
    if len(places) != len(written):
        return AccessPattern()
    used: list[int] = []
    no_const, no_shift = True, True
    for index in wanted:
        if isinstance(index, ir.IntImm):
            no_const = False
            continue
        var, shifted = _var_plus_constant(index)
        if var is None or var not in places:
            return AccessPattern()
        no_shift = no_shift and not shifted
        used.append(places[var])
    return AccessPattern(
        exists=True,
        surjective=set(used) == set(range(len(written))),
        injective=len(set(used)) == len(used),
        ordered=used == sorted(used),
        no_const_read=no_const,
        no_shift_read=no_shift,
    )


def _points(region: ir.BufferRegion) -> list[ir.PrimExpr] | None:
    """The indices of a region with constant extents; None if an extent is symbolic."""
    if not all(isinstance(axis.extent, ir.IntImm) for axis in region.region):
        return None
    return [axis.min for axis in region.region]


def _var_plus_constant(index: ir.PrimExpr) -> tuple[ir.Var | None, bool]:
    match index:
        case ir.Var():
            return index, False
        case ir.Add(a=ir.Var() as var, b=ir.IntImm()) | ir.Add(a=ir.IntImm(), b=ir.Var() as var):
            return var, True
        case ir.Sub(a=ir.Var() as var, b=ir.IntImm()):
            return var, True
    return None, False


def is_write_cache(sch: ScheduleCore, block: BlockRV) -> bool:
    """True when a block only moves what it reads, in order, into the one buffer it writes."""
    return moves_in_order(sch.get_sref(block))


def moves_in_order(block: StmtSRef) -> bool:
    """The same for a reference."""
    stmt = block.block
    if len(stmt.writes) != 1:
        return False
    patterns = (analyze_read_write_pattern(read, stmt.writes[0]) for read in stmt.reads)
    return all(pattern.injective and pattern.ordered for pattern in patterns)
