"""`HaloTiling`: steps of stencils, blurs and filters run tile by tile.

Each step reads neighbours of the elements that it makes. One after the other over the whole array,
every step reads and writes memory; inlined, it computes elements once for each neighbour. Here a
task makes some rows of the result: before it, whatever the rows need of each earlier step, with a
border (halo) that two tasks both compute, in buffers that stay in the cache.
"""

from __future__ import annotations

from tilewright.ir import annotation_keys as keys
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.analysis import has_trivial_binding, writes_output
from tilewright.space.base import schedule_rules
from tilewright.space.conditions import all_before, all_iters_spatial, constant_extent, is_tiled
from tilewright.space.cpu.cpu_rule import OneSketchRule
from tilewright.space.cpu.elementwise_loops import choose, vectorize_last

STRUCTURE = "halo tile"
ROWS = (8, 16, 32, 64)
LEAST_TILES = 2


@schedule_rules.register("HaloTiling")
class HaloTiling(OneSketchRule):
    """Computes chains of spatial blocks in tiles of rows; untiled chains compete with them."""

    competes = True

    def _refusal(self, sch: Schedule, block: StmtSRef) -> str:
        if not writes_output(block):
            return "it does not write an output of the function"
        before = all_before(sch, block)
        if not before:
            return "no other block comes before it"
        if not all(
            all_iters_spatial(each.block) and has_trivial_binding(each) and not is_tiled(each)
            for each in (block, *before)
        ):
            return "it, or a block before it, reduces or is tiled already"
        return "" if self._row_counts(block) else "it has too few rows for tiles on all cores"

    def _schedule(self, sch: Schedule, block: BlockRV) -> None:
        sref = sch.get_sref(block)
        before, rows = all_before(sch, sref), self._row_counts(sref)
        _tile(sch, block, [sch.get_block(other.name) for other in before], rows)

    def _row_counts(self, block: StmtSRef) -> list[int]:
        """Heights of tiles of which every core gets some."""
        loops = block.loops
        length = constant_extent(loops[-2]) if len(loops) > 1 else None
        if length is None:
            return []
        return [rows for rows in ROWS if rows * self._cores * LEAST_TILES <= length]


def _tile(sch: Schedule, block: BlockRV, before: list[BlockRV], rows: list[int]) -> None:
    """Tile the rows of a block and move all that comes `before` it (last one first) there."""
    sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
    *outer, row, last = sch.get_loops(block)
    tile, _ = sch.split(row, [None, choose(sch, rows)])
    vectorize_last(sch, block, last)
    task = sch.fuse(*outer, tile) if outer else tile
    for other in before:
        sch.annotate(other, keys.TILING_STRUCTURE, STRUCTURE)
        sch.compute_at(other, task, preserve_unit_loops=True)
    sch.parallel(task)
    for other in before:
        vectorize_last(sch, other, sch.get_loops(other)[-1])
