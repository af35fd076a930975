"""Results of tensor instructions: in vector registers or, as AMX has them, in tile registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.schedule import BlockRV, LoopRV
from tilewright.space.cpu.register_tile import VectorRegisters, store_vectors
from tilewright.space.cpu.tile_builder import (
    STRUCTURE,
    Registers,
    TileBuilder,
    Tiles,
    TileSite,
    Units,
)
from tilewright.space.tensor.fit import TensorFit
from tilewright.space.tensor.instruction import TensorGroup
from tilewright.space.tensor.unit_packing import UnitOperands


def tensor_tile(
    site: TileSite, fit: TensorFit, group: TensorGroup, features: frozenset[str]
) -> TileBuilder:
    """A tile whose innermost step is an instruction; extents are counted in its units."""
    registers: Registers
    if group.store is None:
        columns = site.variant.columns
        wide = columns * fit.tile.lanes
        registers = VectorRegisters(site, wide, columns, _compute(fit.tile.intrin))
    else:
        registers = OwnRegisters(site, fit, group)
    return TileBuilder(
        site, UnitOperands(site, fit, features), registers, Units(fit.units, fit.order)
    )


def _compute(intrin: str) -> Callable[[TileSite, Tiles], None]:
    """Let an instruction carry out a unit; the initialisation is a step of its own."""

    def compute(site: TileSite, tiles: Tiles) -> None:
        sch = site.sch
        sch.unroll(tiles.lanes)
        unit = sch.blockize(tiles.units[0])
        sch.annotate(unit, TILING_STRUCTURE, STRUCTURE)
        init = sch.decompose_reduction(unit, tiles.depth[0])
        sch.tensorize(unit, intrin)
        (step,) = sch.get_child_blocks(init)
        sch.annotate(step, TILING_STRUCTURE, STRUCTURE)
        *rows, lanes = sch.get_loops(step)
        for loop in rows:
            sch.unroll(loop)
        sch.vectorize(lanes)

    return compute


@dataclass
class OwnRegisters:
    """Registers that hold the results of one unit; instructions set them to zero and store them."""

    site: TileSite
    fit: TensorFit
    group: TensorGroup
    consumers: list[BlockRV] = field(default_factory=list)
    has_one_row: bool = True

    @property
    def vectors(self) -> int:
        return self.site.variant.columns

    @property
    def wide(self) -> int:
        return self.site.variant.columns * self.fit.tile.lanes

    def write_back(self, tile_loop: LoopRV) -> BlockRV:
        """A copy to memory, from which consumers read."""
        sch, block = self.site.sch, self.site.block
        self.consumers = sch.get_consumers(block)
        copy = sch.cache_write(block, 0, self.fit.tile.out.scope)
        for stage in (copy, *self.consumers):
            sch.reverse_compute_at(stage, tile_loop, preserve_unit_loops=True)
            sch.annotate(stage, TILING_STRUCTURE, STRUCTURE)
        return copy

    def store(self, consumer: BlockRV, tile_loop: LoopRV) -> None:
        sch = self.site.sch
        for other in self.consumers:
            store_vectors(sch, other, tile_loop, self.wide)
        assert self.group.store is not None
        sch.tensorize(sch.get_loops(consumer)[-2], self.group.store)

    def finish(self, tiles: Tiles) -> None:
        sch = self.site.sch
        unit = sch.blockize(tiles.units[0])
        init = sch.decompose_reduction(unit, tiles.depth[0])
        sch.tensorize(unit, self.group.compute)
        assert self.group.fill is not None
        sch.tensorize(init, self.group.fill)
