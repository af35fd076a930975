"""`ReduceInVectors`: reductions along contiguous memory.

A sum over the last axis has one result and so no parallelism of its own. As some vectors of partial
sums side by side, and chunks of those for the threads, it runs at the speed of memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.ir import Block, IterType, PrimExpr, Var
from tilewright.ir.annotation_keys import TILING_STRUCTURE, VECTOR_REDUCTION
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.space.base import schedule_rules
from tilewright.space.conditions import (
    NO_REDUCTION,
    UNUSUAL_BINDING,
    all_iters_spatial,
    iter_extent,
)
from tilewright.space.cpu.contraction import uses
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
    if block.init is None:
        return False
    depth = [v.var for v in block.iter_vars if v.iter_type is IterType.COMM_REDUCE]
    written = {region.buffer for region in block.writes}
    inputs = [
        [axis.min for axis in region.region]
        for region in block.reads
        if region.buffer not in written and depth
    ]
    moving = [indices for indices in inputs if any(uses(index, depth[-1]) for index in indices)]
    return bool(moving) and all(lies_along(indices, depth[-1]) for indices in moving)


def lies_along(indices: Sequence[PrimExpr], var: Var) -> bool:
    """True when neighbours along `var` are neighbours in memory."""
    if not indices:  # there is one element only
        return False
    *outer, last = indices
    return last is var and not any(uses(index, var) for index in outer)


def _points(block: Block, kind: IterType) -> int:
    """How many results a block has, or elements in each of them; 0 if that is not a number."""
    return math.prod(iter_extent(v) or 0 for v in block.iter_vars if v.iter_type is kind)


def reduce_in_vectors(sch: Schedule, block: BlockRV, shape: VectorShape) -> None:
    """Mark the reduction loops of a block, which come after all others, to run in vectors."""
    stmt = sch.get_sref(block).block
    depth = [v for v in stmt.iter_vars if v.iter_type is IterType.COMM_REDUCE]
    lanes = shape.lanes(stmt.writes[0].buffer.dtype.bits)
    sch.annotate(block, TILING_STRUCTURE, STRUCTURE)
    first = sch.get_loops(block)[-len(depth)]
    sch.decompose_reduction(block, first)
    widths = [count * lanes for count in STREAMS if count * lanes <= (iter_extent(depth[-1]) or 0)]
    if widths:
        sch.annotate(first, VECTOR_REDUCTION, choose(sch, widths))


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
        few = _points(sch.get_sref(block).block, IterType.DATA_PAR) < self._cores
        self._by_rows(sch, self._by_chunks(sch, block) if few else block)

    def _by_chunks(self, sch: Schedule, block: BlockRV) -> BlockRV:
        """Cut the outermost reduction loop into chunks with results of their own."""
        stmt = sch.get_sref(block).block
        depth = [n for n, v in enumerate(stmt.iter_vars) if v.iter_type is IterType.COMM_REDUCE]
        length = iter_extent(stmt.iter_vars[depth[0]]) or 0
        counts = [n * self._cores for n in (1, 2, 4) if length % (n * self._cores) == 0]
        if _points(stmt, IterType.COMM_REDUCE) < PARALLEL_ELEMENTS or len(depth) < 2 or not counts:
            return block
        chunk, _ = sch.split(sch.get_loops(block)[depth[0]], [choose(sch, counts), None])
        made = sch.rfactor(chunk, len(stmt.writes[0].region))
        sch.annotate(block, TILING_STRUCTURE, STRUCTURE)
        return made

    def _by_rows(self, sch: Schedule, block: BlockRV) -> None:
        stmt = sch.get_sref(block).block
        elements = _points(stmt, IterType.COMM_REDUCE) * _points(stmt, IterType.DATA_PAR)
        rows = sch.get_loops(block)[: len(stmt.writes[0].region)]
        if elements >= PARALLEL_ELEMENTS:
            sch.parallel(sch.fuse(*rows) if len(rows) > 1 else rows[0])
        reduce_in_vectors(sch, block, self._shape)
