"""`FuseRows`: everything that happens to a row happens while it is in the cache.

Softmax and the norms reduce each row once or twice and then go over it again. As separate passes
they read and write memory four times; here one parallel loop over rows holds them all, each step
in vectors.
"""

from __future__ import annotations

import math

from tilewright.errors import ScheduleError
from tilewright.ir import IterType, annotation_keys as keys
from tilewright.nest.block_nest import BlockNest
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.analysis import has_trivial_binding, writes_output
from tilewright.space import conditions
from tilewright.space.base import NotApplied, schedule_rules
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.cpu.cpu_rule import CpuRule
from tilewright.space.cpu.elementwise_loops import PARALLEL_ELEMENTS, vectorize_last
from tilewright.space.cpu.vector_reduction import reduce_in_vectors, reduces_contiguously

STRUCTURE = "row"


@schedule_rules.register("FuseRows")
class FuseRows(CpuRule):
    """Gathers reductions over rows, and what is made of them, in one loop over the rows.

    A `wide` one multiplies by a reciprocal where a whole row is divided by one number.
    """

    def __init__(self, wide: bool = False) -> None:
        super().__init__()
        self._wide = wide

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        if reason := conditions.why_not_free(sref) or _why_not_elementwise(sref):
            return NotApplied(sch, reason)
        before = conditions.all_before(sch, sref)
        # Tiles read an operand that rows share less often: leave the choice to the search.
        behind = conditions.all_before(sch, sref, stop_at=shares_an_operand)
        groups = [before] if writes_output(sref) else []
        groups += [behind] if len(behind) < len(before) else []
        made = [copy for group in groups if (copy := self._fused(sch, block, group)) is not None]
        if not made:
            return NotApplied(sch, _why_not_fused(sref))
        if len(behind) < len(before) and len(made) < 2 and writes_output(sref):
            made.append(sch)
        return made

    def _fused(self, sch: Schedule, block: BlockRV, before: list[StmtSRef]) -> Schedule | None:
        """A sketch with one loop for the rows of a group of blocks; None if they have none."""
        rows = _row_axes(before)
        loops = sch.get_sref(block).loops[:rows]
        if (
            rows == 0
            or math.prod(conditions.constant_extent(loop) or 0 for loop in loops) < self._cores
        ):
            return None
        copy = sch.copy()
        try:
            self._fuse(copy, block, [copy.get_block(other.name) for other in before], rows)
        except ScheduleError:
            return None
        return copy

    def _fuse(self, sch: Schedule, block: BlockRV, before: list[BlockRV], rows: int) -> None:
        """Move all that comes `before` a block (last one first) to its loop over rows."""
        sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
        loops = sch.get_loops(block)
        elements = math.prod(conditions.constant_extent(sch.get_sref(loop)) or 0 for loop in loops)
        row = sch.fuse(*loops[:rows]) if rows > 1 else loops[0]
        for other in before:
            sch.compute_at(other, row, preserve_unit_loops=True)
        if elements >= PARALLEL_ELEMENTS:
            sch.parallel(row)
        for other in before:
            if sch.get_sref(other).block.init is not None:
                reduce_in_vectors(sch, other, self._shape)
            else:
                sch.annotate(other, keys.TILING_STRUCTURE, STRUCTURE)
                vectorize_last(sch, other, sch.get_loops(other)[-1])
        if len(loops) > rows:
            made = vectorize_last(sch, block, sch.get_loops(block)[-1])
            if self._wide and BlockNest(sch.get_sref(block).block).divides:
                sch.annotate(made[0], keys.INVARIANT_DIVISORS, 1)


def _why_not_elementwise(block: StmtSRef) -> str:
    if not conditions.all_iters_spatial(block.block):
        return "it is a reduction"
    return "" if has_trivial_binding(block) else conditions.UNUSUAL_BINDING


def _why_not_fused(block: StmtSRef) -> str:
    if not writes_output(block):
        return "it does not write an output of the function"
    return "there are no reductions over rows before it, or fewer rows than cores"


def shares_an_operand(reduction: StmtSRef) -> bool:
    """True for a product of which several rows read the same columns."""
    contraction = Contraction.of(reduction.block, any_layout=True)
    return contraction is not None and contraction.right is not None and bool(contraction.left)


def _row_axes(before: list[StmtSRef]) -> int:
    """How many axes of all reductions are rows; 0 if there is none to fuse."""
    counts = []
    for sref in before:
        stmt = sref.block
        if conditions.is_tiled(sref) or not has_trivial_binding(sref):
            return 0
        if stmt.init is None:
            continue
        if not reduces_contiguously(stmt):
            return 0
        counts.append(sum(v.iter_type is IterType.DATA_PAR for v in stmt.iter_vars))
    return min(counts, default=0)
