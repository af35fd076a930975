"""`MutateParallel`: another limit for how much work runs in parallel."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import replace

from tilewright.errors import ScheduleError
from tilewright.ir import IRModule, annotation_keys as keys
from tilewright.nest.block_loops import nest_above
from tilewright.schedule import Instruction, Schedule, StmtSRef, Trace
from tilewright.schedule.primitives.annotate import Annotate
from tilewright.schedule.primitives.get_blocks import GetBlock
from tilewright.schedule.trace.instruction import is_step
from tilewright.schedule.trace.random import RandomEngine
from tilewright.space.base import Mutator, TaskContext, mutators
from tilewright.space.mutators.decisions import main_part, notes

Plan = tuple[int, ...]  # for each block, how many of its outermost loops run in parallel
Products = tuple[int, ...]  # iterations of the outermost loop, of the two outermost, ...


@mutators.register("MutateParallel")
class MutateParallel(Mutator):
    """Note a limit under which other loops run in parallel than under the present one."""

    def __init__(self, max_jobs_per_core: int) -> None:
        self.max_jobs_per_core = max_jobs_per_core
        self.max_parallel_extent = -1
        self.mod: IRModule | None = None

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        assert context.target is not None
        self.mod = context.mod
        self.max_parallel_extent = context.target.num_cores * self.max_jobs_per_core

    def apply(self, trace: Trace, seed: int) -> Trace | None:
        engine = RandomEngine(seed)
        found = notes(trace, (keys.PARALLEL,))
        if not found:
            return None
        note = found[engine.integer(0, len(found))]
        blocks = self._blocks_under(trace, note, engine.fork_seed())
        limits = _limit_of_each_plan(blocks, self.max_parallel_extent)
        limits.pop(_plan(blocks, int(note.step.ann_val)), None)
        if not limits:
            return None
        others = sorted(limits)
        limit = limits[others[engine.integer(0, len(others))]]
        changed = Instruction.of(replace(note.step, ann_val=limit), note.outputs)
        insts = [changed if inst is note else inst for inst in main_part(trace)]
        decisions = {inst: trace.decisions[inst] for inst in insts if inst in trace.decisions}
        return Trace(insts, decisions)

    def _blocks_under(self, trace: Trace, note: Instruction[Annotate], seed: int) -> list[Products]:
        """What could run in parallel in each block of the scope that bears the note."""
        if self.mod is None:
            raise ScheduleError(
                "MutateParallel does not know the program; call _initialize_with_tune_context first"
            )
        found = _block_of(trace, note)
        sch = Schedule(self.mod, seed=seed, error_render_level="none")
        trace.apply_to_schedule(sch, remove_postproc=True)
        sch.trace = None
        scope = sch.get_sref(sch.get_block(found.name, found.func_name))
        return [
            _products(block, self.max_parallel_extent) for block in sch.state.child_blocks(scope)
        ]


def _block_of(trace: Trace, note: Instruction[Annotate]) -> GetBlock:
    """The step that found the block of an annotation."""
    for inst in main_part(trace):
        if is_step(inst, GetBlock) and inst.outputs[0] is note.step.block_or_loop:
            return inst.step
    raise ScheduleError(f"the block annotated with {keys.PARALLEL!r} does not come from get_block")


def _products(block: StmtSRef, limit: int) -> Products:
    extents: list[int] = []
    for loop in nest_above(block):
        if loop.extent is None or not loop.is_spatial:
            break
        extents.append(loop.extent)
    made: list[int] = []
    for product in itertools.accumulate(extents, lambda a, b: a * b):
        made.append(product)
        if product >= limit:
            break
    return tuple(made)


def _limit_of_each_plan(blocks: Sequence[Products], most: int) -> dict[Plan, int]:
    """The plans that limits up to `most` lead to, each with a limit that does."""
    limits = sorted({product for block in blocks for product in block if product <= most})
    return {_plan(blocks, limit): limit for limit in limits}


def _plan(blocks: Sequence[Products], limit: int) -> Plan:
    """How many loops of each block it takes to reach a limit, loops of one iteration included."""
    return tuple(_loops_to_reach(block, limit) for block in blocks)


def _loops_to_reach(products: Products, limit: int) -> int:
    count = bisect.bisect_right(products, limit)
    reached = count > 0 and products[count - 1] == limit
    return count if reached else min(count + 1, len(products))
