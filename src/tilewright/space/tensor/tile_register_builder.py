"""Building one register tile around instructions that have registers of their own, such as AMX."""

from __future__ import annotations

from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.schedule import BlockRV, LoopRV
from tilewright.space.cpu.tile_builder import STRUCTURE, Tiles
from tilewright.space.tensor.tensor_tile_builder import TensorTileBuilder


class TileRegisterBuilder(TensorTileBuilder):
    """Builds one sketch around instructions that keep their sums in registers of their own.

    Such registers hold the results of one unit; other instructions set them to zero and store them.
    """

    def _row_choices(self) -> dict[int, list[int]]:
        return {n: [1] for n in super()._row_choices()}

    def _write_back(self, home: LoopRV) -> BlockRV:
        sch, block = self._sch, self._block
        consumers = sch.get_consumers(block)
        taker = sch.cache_write(block, 0, self._tile.out.scope)
        for stage in (taker, *consumers):
            sch.reverse_compute_at(stage, home, preserve_unit_loops=True)
            sch.annotate(stage, TILING_STRUCTURE, STRUCTURE)
        self._consumers = consumers
        return taker

    def _write_back_by_vectors(self, taker: BlockRV, home: LoopRV) -> None:
        for consumer in self._consumers:
            super()._write_back_by_vectors(consumer, home)
        assert self._group.store is not None
        self._sch.tensorize(self._sch.get_loops(taker)[-2], self._group.store)

    def _finish(self, tiles: Tiles) -> None:
        sch = self._sch
        unit = sch.blockize(self._units[0])
        init = sch.decompose_reduction(unit, tiles.depth[0])
        sch.tensorize(unit, self._group.compute)
        assert self._group.fill is not None
        sch.tensorize(init, self._group.fill)
