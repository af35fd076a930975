"""`ReduceInVectors`: reductions along contiguous memory.

A sum over the last axis has one result and so no parallelism of its own. As some vectors of partial
sums side by side, and chunks of those for the threads, it runs at the speed of memory.
"""

from __future__ import annotations

import itertools

from tilewright.ir import Block, annotation_keys as keys
from tilewright.nest.block_nest import BlockNest
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.space.base import schedule_rules
from tilewright.space.conditions import NO_REDUCTION, UNUSUAL_BINDING, all_iters_spatial
from tilewright.space.cpu.cpu_rule import OneSketchRule, VectorShape
from tilewright.space.cpu.elementwise_loops import PARALLEL_ELEMENTS, choose

STRUCTURE = "vector reduction"
STREAMS = (1, 2, 4, 8)


def reduces_contiguously(block: Block) -> bool:
    """True when the innermost reduction axis of a block walks over neighbouring elements.

    Inputs that stay the same along it do not matter.
    """
    return len(block.writes) == 1 and walks_over_neighbours(block)


def walks_over_neighbours(block: Block) -> bool:
    """The same of a reduction that has several results, such as the place of the largest."""
    nest = BlockNest(block)
    if block.init is None or not nest.depth:
        return False
    innermost = nest.iters[nest.depth[-1]]
    moving = [operand for operand in nest.operands.values() if operand.uses(innermost)]
    return bool(moving) and all([operand.lies_along(innermost) for operand in moving])


def reduce_in_vectors(sch: Schedule, block: BlockRV, shape: VectorShape) -> None:
    """Mark the reduction loops of a block, which come after all others, to run in vectors."""
    stmt = sch.get_sref(block).block
    nest = BlockNest(stmt)
    lanes = shape.lanes(stmt.writes[0].buffer.dtype.bits)
    sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
    first = sch.get_loops(block)[-len(nest.depth)]
    sch.decompose_reduction(block, first)
    length = nest.extents[nest.depth[-1]] or 0
    if widths := [count * lanes for count in STREAMS if count * lanes <= length]:
        sch.annotate(first, keys.VECTOR_REDUCTION, choose(sch, widths))


@schedule_rules.register("ReduceInVectors")
class ReduceInVectors(OneSketchRule):
    """Reductions with few results: rows or, if there are too few, chunks of them in parallel."""

    def _refusal(self, sch: Schedule, block: StmtSRef) -> str:
        if all_iters_spatial(block.block):
            return NO_REDUCTION
        if not has_trivial_binding(block):
            return UNUSUAL_BINDING
        if not reduces_contiguously(block.block):
            return "its innermost reduction axis does not run over neighbouring elements"
        return ""

    def _schedule(self, sch: Schedule, block: BlockRV) -> None:
        nest = BlockNest(sch.get_sref(block).block)
        few = nest.points(nest.spatial) < self._cores
        self._by_rows(sch, self._by_chunks(sch, block) if few else block)

    def _by_chunks(self, sch: Schedule, block: BlockRV) -> BlockRV:
        """Cut the first reduction loop that is long into chunks with results of their own."""
        stmt = sch.get_sref(block).block
        nest = BlockNest(stmt)
        single = list(itertools.takewhile(lambda n: nest.extents[n] == 1, nest.depth))
        outermost, *others = nest.depth[len(single) :] or nest.depth
        length = nest.extents[outermost] or 0
        counts = [n * self._cores for n in (1, 2, 4) if length % (n * self._cores) == 0]
        if nest.points(nest.depth) < PARALLEL_ELEMENTS or not others or not counts:
            return block
        loops = sch.get_loops(block)
        chunk, _ = sch.split(loops[outermost], [choose(sch, counts), None])
        if single:
            sch.reorder(chunk, *(loops[n] for n in single))
        made = sch.rfactor(chunk, len(stmt.writes[0].region))
        sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
        return made

    def _by_rows(self, sch: Schedule, block: BlockRV) -> None:
        stmt = sch.get_sref(block).block
        nest = BlockNest(stmt)
        elements = nest.points(nest.depth) * nest.points(nest.spatial)
        rows = sch.get_loops(block)[: len(stmt.writes[0].region)]
        if rows and elements >= PARALLEL_ELEMENTS:
            sch.parallel(sch.fuse(*rows) if len(rows) > 1 else rows[0])
        reduce_in_vectors(sch, block, self._shape)
