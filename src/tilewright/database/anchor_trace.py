"""A schedule that was found for a program, carried over to another with the same anchor block.

The other program differs in what stands around that block, its heaviest reduction. Elementwise
blocks which the trace does not know are inlined; what only the trace's program has is left out.
"""

from __future__ import annotations

from typing import Any

from tilewright.database.module_equality import find_anchor_block
from tilewright.errors import ScheduleError
from tilewright.ir import Block, ForKind
from tilewright.ir.patterns import nodes_of
from tilewright.records import entry_function
from tilewright.schedule import BlockRV, Instruction, Schedule, StmtSRef, Trace
from tilewright.schedule.analysis import has_block, is_output_block
from tilewright.schedule.primitives.compute_inline import ComputeInline, can_compute_inline
from tilewright.schedule.primitives.get_blocks import GetBlock, GetChildBlocks, neighbours
from tilewright.schedule.primitives.reverse_compute_inline import (
    ReverseComputeInline,
    can_reverse_compute_inline,
)
from tilewright.schedule.trace.instruction import Primitive, is_step
from tilewright.schedule.trace.text import rvs_in
from tilewright.schedule.trace.trace import learned, results_of
from tilewright.space.conditions import all_iters_spatial, is_root
from tilewright.space.defaults import create_schedule_rules, kind_of_target
from tilewright.space.gpu.gpu_limits import MAX_THREADS, required_gpu_number
from tilewright.space.tvm.auto_bind import AutoBind
from tilewright.space.tvm.auto_inline import AutoInline
from tilewright.target import Target

_CPU_KINDS = ("llvm", "c", "hexagon")


def schedule_using_anchor_trace(sch: Schedule, anchor_trace: Trace, target: Target) -> None:
    """Schedule a program like another one that has the same anchor block."""
    with sch.all_or_nothing():
        _inline_around_anchor(sch, anchor_trace, target)
        left = _unscheduled_after(sch, anchor_trace)
        if len(left) > 1:
            names = ", ".join(repr(block.name) for block in left)
            raise ScheduleError(
                f"the trace leaves blocks {names} without a schedule; it fits programs that "
                "differ from its own by elementwise blocks around the anchor block only"
            )
        for block in left:
            _schedule_rest(sch, block, target)


# --- blocks after the anchor --------------------------------------------------------------------


def _inline_around_anchor(sch: Schedule, trace: Trace, target: Target) -> None:
    """Inline the spatial blocks that the trace does not know; what is an output comes last."""
    known = {inst.step.name for inst in trace.insts if is_step(inst, GetBlock)}
    anchor = find_anchor_block(sch.mod)
    before = set() if anchor is None else _with_producers(sch, sch.state.srefs[anchor])
    todo = [
        sch.get_block(block.name)
        for block in _blocks(sch)
        if block.name not in known | before and all_iters_spatial(block.block)
    ]
    rules = create_schedule_rules(kind_of_target(target))
    rule = next(rule for rule in rules if isinstance(rule, AutoInline))
    for block in sorted(todo, key=lambda block: is_output_block(sch, block)):
        rule.apply(sch, block)


def _with_producers(sch: Schedule, block: StmtSRef) -> set[str]:
    """The names of a block and of all that its data comes from."""
    found = {block.name}
    for producer in neighbours(sch, block, before=True):
        found |= _with_producers(sch, producer)
    return found


def _blocks(sch: Schedule) -> list[StmtSRef]:
    """All blocks of the program but its root, in order."""
    found = (sch.state.srefs[block] for block in nodes_of(entry_function(sch.mod).body, Block))
    return [block for block in found if not is_root(block)]


# --- the trace ----------------------------------------------------------------------------------


def _unscheduled_after(sch: Schedule, trace: Trace) -> list[StmtSRef]:
    """Follow the trace as far as it goes; the blocks whose loops are what they were."""
    before = {block.name: _loop_kinds(block) for block in _blocks(sch)}
    known: dict[object, object] = {}
    foreign: set[object] = set()  # handles of what this program does not have
    for inst in trace.insts:
        if not any(rv in foreign for value in inst.inputs for rv in rvs_in(value)):
            step = inst.step.with_handles(known)
            known.update(_followed(sch, inst, step, trace.decisions.get(inst)))
        foreign.update(output for output in inst.outputs if output not in known)
    return [block for block in _blocks(sch) if before.get(block.name) == _loop_kinds(block)]


def _loop_kinds(block: StmtSRef) -> list[ForKind]:
    return [loop.loop.kind for loop in block.loops]


def _followed(
    sch: Schedule, inst: Instruction, step: Primitive[Any], decision: Any
) -> dict[object, object]:
    """Carry out a step if it makes sense here; what became of its results."""
    match step:
        case GetBlock() if not has_block(sch, step.name):
            return {}
        case ComputeInline() | ReverseComputeInline():
            _inline(sch, step.block, into_producer=isinstance(step, ReverseComputeInline))
            return {}
    made = sch.run(step, decision)
    if isinstance(step, GetChildBlocks):  # there may be more
        return dict(zip(inst.outputs, results_of(made), strict=False))
    return learned(inst, made)


def _inline(sch: Schedule, block: BlockRV, *, into_producer: bool) -> None:
    """Inline a block the way the trace does, or else the other way; an output may have to stay."""
    sref = sch.get_sref(block)
    if into_producer and can_reverse_compute_inline(sch.state, sref):
        sch.reverse_compute_inline(block)
    elif into_producer or can_compute_inline(sch.state, sref):
        sch.compute_inline(block)
    elif can_reverse_compute_inline(sch.state, sref):
        sch.reverse_compute_inline(block)


# --- what is left -------------------------------------------------------------------------------


def _schedule_rest(sch: Schedule, block: StmtSRef, target: Target) -> None:
    producers = neighbours(sch, block, before=True)
    handle = sch.get_block(block.name)
    if len(producers) == 1 and all_iters_spatial(producers[0].block):
        sch.reverse_compute_inline(handle)
    elif target.kind.name in _CPU_KINDS:
        sch.parallel(sch.fuse(*sch.get_loops(handle)))
    else:
        threads = required_gpu_number(target, MAX_THREADS, "schedule_using_anchor_trace")
        AutoBind(max_threads_per_block=threads).apply(sch, handle)
