"""`ReduceColumns`: reductions to several results at once, such as `argmin`, in vectors of columns.

Each lane of a vector reduces a column of its own, so that neighbouring elements are read together
and no lane depends on another. Rows are cut into columns first, one for each lane, whose results
are reduced once more. Sums of products have register tiles instead.
"""

from __future__ import annotations

from tilewright.ir import Block, annotation_keys as keys
from tilewright.nest.block_nest import BlockNest
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.space.base import schedule_rules
from tilewright.space.conditions import UNUSUAL_BINDING
from tilewright.space.cpu.cpu_rule import VECTORS, OneSketchRule
from tilewright.space.cpu.elementwise_loops import choose

STRUCTURE = "columns"
LONG_ROWS = 4  # vectors in a row, at least, that are worth cutting it


@schedule_rules.register("ReduceColumns")
class ReduceColumns(OneSketchRule):
    """Vectors along the last axis of the results, the reduction around them."""

    def _refusal(self, sch: Schedule, block: StmtSRef) -> str:
        if block.block.init is None or len(block.block.writes) < 2:
            return "it is not a reduction to several results"
        if not has_trivial_binding(block):
            return UNUSUAL_BINDING
        if _column_of(block.block) is None and not self._lanes_of_rows(block.block):
            return "its inputs lie neither along its results nor, in whole vectors, along the axis"
        return ""

    def _lanes_of_rows(self, block: Block) -> list[int]:
        """How many columns the rows of a reduction may be cut into."""
        nest = BlockNest(block)
        inputs = [operand for operand in nest.operands.values() if operand.indices]
        if len(nest.depth) != 1 or not inputs:
            return []
        if not all([operand.ends_in([nest.iters[nest.depth[0]]]) for operand in inputs]):
            return []
        length = nest.points(nest.depth)
        counts = [n * self._lanes_of(block) for n in VECTORS]
        return [n for n in counts if length % n == 0 and length >= LONG_ROWS * n]

    def _reduce_rows(self, sch: Schedule, block: BlockRV) -> None:
        """One result for each lane, in a vector; then the results of the lanes."""
        stmt = sch.get_sref(block).block
        *rows, depth = sch.get_loops(block)
        _, lanes = sch.split(depth, [None, choose(sch, self._lanes_of_rows(stmt))])
        made = sch.rfactor(lanes, len(stmt.writes[0].region))
        *outer, steps, vector = sch.get_loops(made)
        sch.annotate(made, keys.TILING_STRUCTURE, STRUCTURE)
        sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
        sch.vectorize(vector)
        for own in (outer, sch.get_loops(block)[: len(rows)]):
            if own:
                sch.parallel(sch.fuse(*own) if len(own) > 1 else own[0])
        sch.decompose_reduction(made, steps)
        sch.decompose_reduction(block, sch.get_loops(block)[-1])

    def _schedule(self, sch: Schedule, block: BlockRV) -> None:
        if _column_of(sch.get_sref(block).block) is None:
            self._reduce_rows(sch, block)
        else:
            self._reduce(sch, block)

    def _reduce(self, sch: Schedule, block: BlockRV) -> None:
        stmt = sch.get_sref(block).block
        column, loops = _column_of(stmt), sch.get_loops(block)
        assert column is not None
        reduced = BlockNest(stmt).depth
        depth = [loops[n] for n in reduced]
        rows = [loop for n, loop in enumerate(loops) if n not in reduced and n != column]
        sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
        outer, vector = self._split_vectors(sch, stmt, loops[column])
        sch.reorder(*rows, outer, *depth, vector)
        sch.parallel(sch.fuse(*rows, outer) if rows else outer)
        sch.vectorize(vector)
        sch.decompose_reduction(block, depth[0])


def _column_of(block: Block) -> int | None:
    """The spatial iterator along which all results and inputs are contiguous, by position."""
    nest = BlockNest(block)
    last = nest.writes[0].last
    column = nest.position(last)
    if last is None or column not in nest.spatial:
        return None
    if not all([access.ends_in([last]) for access in nest.writes]):
        return None
    return column if all([access.lies_along(last) for access in nest.inputs.values()]) else None
