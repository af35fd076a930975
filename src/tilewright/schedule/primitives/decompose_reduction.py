"""`decompose_reduction`: the initialization of a reduction as a block of its own."""

from __future__ import annotations

from tilewright import ir
from tilewright.schedule.conditions.checks import check_reduction_block, loops_divided_at, runs_once
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves.init_block import initialization, reads_with_writes
from tilewright.schedule.state import BlockRV, LoopRV, ScheduleState, StmtSRef
from tilewright.schedule.state.splice import copy_path, replace_in_parent
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class ReductionLoopOutside(PrimitiveError):
    reason = "loop {outer!r}, around loop {loop!r}, carries the reduction of block {block!r}"
    remedy = "give {outer!r} itself or a loop around it"


class RunsRepeatedly(PrimitiveError):
    reason = (
        "block {block!r} runs more than once for the same iterators under loop {loop!r}, which "
        "would add to what is there already"
    )
    remedy = "give a loop inside the one that repeats it"


@register_primitive
class DecomposeReduction(Primitive[BlockRV]):
    """Initialize right before `loop`; the block only updates from then on."""

    moves_blocks = False
    block: BlockRV = given()
    loop: LoopRV = given()

    def run(self, sch: ScheduleCore) -> BlockRV:
        state, block, loop = sch.state, sch.get_sref(self.block), sch.get_sref(self.loop)
        realize = block.realize
        inside = _check(state, block, loop, realize)
        stmt = realize.block
        init, init_nest = initialization(
            realize,
            [sref.loop for sref in inside],
            rename_loop=lambda name: f"{name}_init",
            rename_iterator=lambda name: name,
            annotations=stmt.annotations,
        )
        reads, name = reads_with_writes(stmt), f"{stmt.name_hint}_update"
        update = ir.replace(stmt, reads=reads, name_hint=name, init=None)
        update_nest = copy_path(
            loop, block, ir.BlockRealize(realize.iter_values, realize.predicate, update)
        )
        replace_in_parent(state, loop, (init_nest, update_nest), {stmt: update})
        state.info(block).region_cover = None  # it reads what the new block writes
        state.info(block.scope_root).stage_pipeline = None
        return sch.block_rv(state.srefs[init])


def _check(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, realize: ir.BlockRealize
) -> list[StmtSRef]:
    """The loops around the block from `loop` on, if all preconditions hold."""
    above, inside = loops_divided_at(block, loop)
    check_reduction_block(state, block)
    outside = {sref.loop.loop_var: sref for sref in above}
    for iter_var, value in realize.bindings:
        if iter_var.iter_type is ir.IterType.COMM_REDUCE:
            for variable, outer in outside.items():
                if ir.uses_var(value, variable.same_as):
                    raise ReductionLoopOutside(outer=outer, loop=loop.name, block=block)
    if not runs_once(realize, [sref.loop for sref in inside]):
        raise RunsRepeatedly(block=block, loop=loop)
    return inside
