"""`IndependentSlices`: blocks that read what they write, but never what other rows write.

A scan along rows, an update in place, the rows of a sparse matrix: their iterations have an order
along some axes and none along others. The latter run in parallel; and where the block is a short
statement, several of them side by side, so that one row need not wait for the last sum of another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.ir import Block, BufferStore, Stmt, annotation_keys as keys, statements_of
from tilewright.nest.access import BufferAccess
from tilewright.schedule import BlockRV, LoopRV, Schedule, StmtSRef
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.schedule.conditions.checks import why_not_compact
from tilewright.schedule.conditions.slices import free_positions
from tilewright.space.base import schedule_rules
from tilewright.space.conditions import UNUSUAL_BINDING
from tilewright.space.cpu.cpu_rule import OneSketchRule
from tilewright.space.cpu.elementwise_loops import PARALLEL_ELEMENTS, choose, extent_of

STRUCTURE = "slices"
ROWS = (1, 4, 8, 16)  # that are carried on side by side
PARTIAL_SUMS = 4  # of loops inside of a block, which are usually short


@schedule_rules.register("IndependentSlices")
class IndependentSlices(OneSketchRule):
    """Parallel slices; inside of them vectors across, or rows side by side."""

    def _refusal(self, sch: Schedule, block: StmtSRef) -> str:
        loops = block.loops
        if not loops or not why_not_compact(sch.state, loops[0], block):
            return "it does not read what it writes"
        if not has_trivial_binding(block):
            return UNUSUAL_BINDING
        if not free_positions(block.block):
            return "each of its iterations may read what any other one writes"
        return ""

    def _schedule(self, sch: Schedule, block: BlockRV) -> None:
        stmt, loops = sch.get_sref(block).block, sch.get_loops(block)
        sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
        free = free_positions(stmt)
        ordered = [loop for n, loop in enumerate(loops) if n not in free]
        rows = [loops[n] for n in free]
        elements = math.prod(max(1, extent_of(sch, loop)) for loop in loops)
        if not _is_short(stmt.body):
            sch.annotate(block, keys.VECTOR_REDUCTION, PARTIAL_SUMS)
            elements = PARALLEL_ELEMENTS  # whatever is inside takes long
        elif BufferAccess.of(stmt.writes[0]).ends_in([stmt.iter_vars[free[-1]].var]):
            rows = self._vectors_across(sch, stmt, rows, ordered)
        else:
            rows = _rows_side_by_side(sch, rows, ordered)
        if elements >= PARALLEL_ELEMENTS:
            sch.parallel(sch.fuse(*rows) if len(rows) > 1 else rows[0])

    def _vectors_across(
        self, sch: Schedule, stmt: Block, rows: Sequence[LoopRV], ordered: Sequence[LoopRV]
    ) -> list[LoopRV]:
        """Neighbouring elements are independent: a vector of them is carried on at once."""
        outer, vector = self._split_vectors(sch, stmt, rows[-1])
        sch.reorder(*rows[:-1], outer, *ordered, vector)
        sch.vectorize(vector)
        return [*rows[:-1], outer]


def _rows_side_by_side(
    sch: Schedule, rows: Sequence[LoopRV], ordered: Sequence[LoopRV]
) -> list[LoopRV]:
    extent = extent_of(sch, rows[-1])
    counts = [n for n in ROWS if n <= extent and extent % n == 0]
    outer, inner = sch.split(rows[-1], [None, choose(sch, counts)])
    sch.reorder(*rows[:-1], outer, *ordered, inner)
    sch.unroll(inner)
    return [*rows[:-1], outer]


def _is_short(stmt: Stmt) -> bool:
    """True for a few stores, without loops."""
    return all(isinstance(part, BufferStore) for part in statements_of(stmt))
