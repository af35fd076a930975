"""Parts of register tiles that multiply and add vectors: packed panels, vector registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.ir.annotation_keys import STREAM_STORES, TILING_STRUCTURE
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.schedule.state.scope import loops_of
from tilewright.space.conditions import all_iters_spatial
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.cpu.elementwise_loops import TRANSPOSED_TILE, whole_vectors
from tilewright.space.cpu.tile_builder import STRUCTURE, TileBuilder, Tiles, TileSite

# Results of that many bytes are gone from the caches before anyone reads them.
LARGE_RESULT = 8 << 20
CACHE_LINE = 64


@dataclass(frozen=True)
class PanelOperands:
    """Operands as they are, or the right one in panels as wide as a tile."""

    site: TileSite

    @property
    def any_layout(self) -> bool:
        return self.site.variant.turned

    def prepare(self) -> None:
        """Nothing to do."""

    def adapt(self, stages: list[BlockRV]) -> list[BlockRV]:
        return stages

    def place(self, contraction: Contraction, task: LoopRV) -> None:
        """Copy the right operand into panels, in the order they are read in."""
        if not self.site.variant.packed:
            return
        sch, block, wide = self.site.sch, self.site.block, self.site.variant.columns
        number = contraction.right
        assert number is not None
        region = self.site.stmt.reads[number]
        axis = self._vector_axis(region, contraction)
        copy = sch.cache_read(block, number, "global")
        self.site.mark_packing(copy, region.buffer)

        def panels(*indices: ir.PrimExpr) -> tuple[ir.PrimExpr, ...]:
            outer = list(indices)
            own = outer.pop(axis)
            return (ir.floordiv(own, wide), *outer, ir.floormod(own, wide))

        sch.transform_layout(block, ("read", number), panels, assume_injective_transform=True)
        sch.annotate(copy, TILING_STRUCTURE, STRUCTURE)
        outer = list(sch.get_loops(copy))
        panel, lanes = sch.split(outer.pop(axis), [None, wide])
        if self.site.variant.turned and outer and wide % TRANSPOSED_TILE == 0:
            self._pack_by_tiles(panel, outer, lanes, region.buffer.dtype.itemsize)
        else:
            sch.reorder(panel, *outer, lanes)
            sch.vectorize(lanes)
        sch.parallel(panel)

    def _pack_by_tiles(
        self, panel: LoopRV, outer: Sequence[LoopRV], lanes: LoopRV, itemsize: int
    ) -> None:
        """Transpose by tiles: a few lines of the operand are read to their ends before others."""
        sch = self.site.sch
        depth, line = sch.split(outer[-1], [None, CACHE_LINE // itemsize])
        group, few = sch.split(lanes, [None, TRANSPOSED_TILE])
        sch.reorder(panel, *outer[:-1], depth, group, line, few)
        sch.unroll(line)
        sch.vectorize(few)

    def _vector_axis(self, region: ir.BufferRegion, contraction: Contraction) -> int:
        """The axis of the right operand that vectors run along."""
        if not self.site.variant.turned:
            return len(region.region) - 1
        vector = self.site.stmt.iter_vars[contraction.vector].var
        return next(n for n, axis in enumerate(region.region) if axis.min is vector)


@dataclass(frozen=True)
class VectorRegisters:
    """Results in vector registers; `compute` makes something of the innermost loops."""

    site: TileSite
    wide: int
    vectors: int
    compute: Callable[[TileSite, Tiles], None]
    has_one_row: bool = False

    def write_back(self, tile_loop: LoopRV) -> BlockRV:
        """An elementwise consumer of the results, or a copy."""
        sch, block = self.site.sch, self.site.block
        consumers = neighbours(sch, sch.get_sref(block), before=False)
        if len(consumers) == 1 and _is_elementwise(consumers[0].block, self.site.stmt):
            (consumer,) = sch.get_consumers(block)
            sch.reverse_compute_at(consumer, tile_loop, preserve_unit_loops=True)
            sch.set_scope(block, 0, "local")
        else:
            consumer = sch.cache_write(block, 0, "local")
            sch.reverse_compute_at(consumer, tile_loop, preserve_unit_loops=True)
        sch.annotate(consumer, TILING_STRUCTURE, STRUCTURE)
        return consumer

    def store(self, consumer: BlockRV, tile_loop: LoopRV) -> None:
        store_vectors(self.site.sch, consumer, tile_loop, self.wide)

    def finish(self, tiles: Tiles) -> None:
        self.compute(self.site, tiles)


def store_vectors(sch: Schedule, consumer: BlockRV, tile_loop: LoopRV, wide: int) -> None:
    """Write results back by vectors, past the caches if there are many."""
    outside = len(loops_of(sch.get_sref(tile_loop))) + 1
    *rows, lanes = sch.get_loops(consumer)[outside:]
    for loop in rows:
        sch.unroll(loop)
    if rows and _is_large(sch.get_sref(consumer).block.writes[0].buffer, wide):
        sch.annotate(rows[0], STREAM_STORES, 1)
    sch.vectorize(whole_vectors(sch, lanes, wide))


def _is_large(result: ir.Buffer, wide: int) -> bool:
    """Whether a result is better stored past the caches, in whole lines."""
    extents = [extent.value for extent in result.shape if isinstance(extent, ir.IntImm)]
    if len(extents) < len(result.shape) or wide * result.dtype.itemsize % CACHE_LINE:
        return False
    return math.prod(extents) * result.dtype.itemsize >= LARGE_RESULT


def register_tile(site: TileSite) -> TileBuilder:
    """A tile of multiply-adds on vectors."""
    wide = site.variant.columns
    vectors = max(1, wide // site.shape.lanes(site.stmt.writes[0].buffer.dtype.bits))
    registers = VectorRegisters(site, wide, vectors, _multiply_add)
    return TileBuilder(site, PanelOperands(site), registers)


def _multiply_add(site: TileSite, tiles: Tiles) -> None:
    """Make the innermost loop a vector, and the initialisation a step of its own."""
    site.sch.vectorize(tiles.lanes)
    site.sch.decompose_reduction(site.block, tiles.depth[0])


def _is_elementwise(consumer: ir.Block, maker: ir.Block) -> bool:
    """True when a block makes one element of its result from the same element of another's."""
    if len(consumer.writes) != 1 or not all_iters_spatial(consumer):
        return False
    made = maker.writes[0].buffer
    written = [axis.min for axis in consumer.writes[0].region]
    for region in consumer.reads:
        if region.buffer is made:
            read = [axis.min for axis in region.region]
            return len(read) == len(written) and all(map(ir.expr_deep_equal, read, written))
    return False
