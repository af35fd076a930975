"""`RegisterTiling`: a tile of results stays in vector registers for the whole reduction.

This is what a hand-written matrix product or convolution does, and what a tiling of loops alone
cannot say: a tile of `rows` x `vectors` accumulators lives in a `local` buffer that becomes
registers; it is set to zero before the reduction, written back after it, and in between each step
loads one row of the right operand and broadcasts elements of the left one. Tiles need not divide:
the last vector is masked, the last rows are a smaller tile.

One sketch for each number of vectors, with and without a packed right operand, and with producers
(padding) in a pass of their own, beside the rows that need them or, where the reduction is so short
that a pass would count, not at all: tiles at the border leave out what is zero.

A right operand that lies across the vectors (the weights of a dense layer: `A[i, k] * W[j, k]`) is
always packed. If few rows use the copy, other rules get the block as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.errors import ScheduleError
from tilewright.ir import Block, PrimFunc, annotation_keys as keys
from tilewright.nest.access import LINE, BufferAccess
from tilewright.nest.block_nest import BlockNest
from tilewright.nest.placement import whole_bytes
from tilewright.schedule import BlockRV, LoopRV, Schedule, StmtSRef
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.space.base import NotApplied, schedule_rules
from tilewright.space.conditions import NO_REDUCTION, all_iters_spatial, is_tiled, why_not_free
from tilewright.space.cpu import tile_builder
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.cpu.cpu_rule import CpuRule
from tilewright.space.cpu.elementwise_loops import TRANSPOSED_TILE, whole_vectors, write_out
from tilewright.space.layout_free import has_bound_weights, is_layout_free

MAX_VECTORS = 4
WIDEST = 6  # vectors, with which rows are as few as hide the latency of a multiply-add
PACKING_REUSE = 64
TURNING_REUSE = 8  # of a copy that puts columns side by side: without it, sums run along the depth
PACKING_BYTES = 1 << 18
# Weights that are packed before anyone waits are read from panels, unless they fit into the first
# cache anyway: rows of a matrix that lie a multiple of 4 kB apart push each other out of caches.
FREE_PACKING_BYTES = 1 << 14


@schedule_rules.register("RegisterTiling")
class RegisterTiling(CpuRule):
    """Tiles contractions for the vector registers of a CPU.

    A `wide` one leaves more to the search: tiles of any width that registers allow, more sizes of
    everything, and columns inside of rows.
    """

    def __init__(self, wide: bool = False) -> None:
        super().__init__()
        self._wide = wide

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        if taken := why_not_free(sref):
            return NotApplied(sch, taken)
        contraction = Contraction.of(sref.block)
        variants = []
        if contraction is not None and contraction.right is not None:
            variants = self._variants(sch, block, contraction)
        elif (contraction := _turned(sref)) is not None:
            variants = self._turned_variants(sch, block, contraction)
        sketches = []
        for variant in variants:
            copy = sch.copy()
            try:
                breadth = tile_builder.WIDE if self._wide else tile_builder.NARROW
                register_tile(
                    tile_builder.TileSite(copy, block, variant, self._shape, self._cores, breadth)
                ).run()
            except (tile_builder.NotTiled, ScheduleError):
                continue  # this way does not fit the program around the block
            sketches.append(copy)
        if (
            contraction is not None
            and sketches
            and variants[0].turned
            and not _is_reused(contraction)
        ):
            sketches.append(sch)
        return sketches or NotApplied(sch, _why_no_tile(sref.block))

    def _variants(
        self, sch: Schedule, block: BlockRV, contraction: Contraction
    ) -> list[tile_builder.TileVariant]:
        sref = sch.get_sref(block)
        lanes = self._shape.lanes(sref.block.writes[0].buffer.dtype.bits)
        producers = [p for p in neighbours(sch, sref, before=True) if not is_tiled(p)]
        places = [tile_builder.ProducerPlace.BEFORE]
        if producers and contraction.rows:
            places.append(tile_builder.ProducerPlace.BESIDE)
        may_inline = self._wide or tile_builder.is_window(contraction)
        if may_inline and any(tile_builder.pads(producer.block) for producer in producers):
            places.append(tile_builder.ProducerPlace.INLINE)
        func = sch.mod[sch.state.function_of(sref)]
        may_pack = _is_worth_packing(func, sref, contraction, producers)
        packing = {
            wide: _ways_to_store(func, sref, contraction, wide) if may_pack else (False,)
            for wide in (vectors * lanes for vectors in self._widths(contraction, lanes))
        }
        return [
            tile_builder.TileVariant(wide, packed, place, rows_outside=rows_outside)
            for wide, ways in packing.items()
            for packed in ways
            for place in places
            for rows_outside in self._orders(contraction, wide)
        ]

    def _orders(self, contraction: Contraction, wide: int) -> tuple[bool, ...]:
        """Whether rows may be outside of columns; where there are several of both."""
        has_order = contraction.rows and contraction.extents[contraction.vector] > wide
        return (False, True) if self._wide and has_order else (False,)

    def _widths(self, contraction: Contraction, lanes: int) -> list[int]:
        """How many vectors wide a tile may be."""
        used = _used_shares(contraction, lanes, WIDEST if self._wide else MAX_VECTORS)
        best = max(used.values(), default=0.0)
        least = (tile_builder.WIDE if self._wide else tile_builder.NARROW).least_use * best
        good = [count for count, share in used.items() if share >= least]
        return good if self._wide else [count for count in good if count > 1] or good

    def _turned_variants(
        self, sch: Schedule, block: BlockRV, contraction: Contraction
    ) -> list[tile_builder.TileVariant]:
        sref = sch.get_sref(block)
        func = sch.mod[sch.state.function_of(sref)]
        if _row_count(contraction) < TURNING_REUSE and not has_bound_weights(func):
            return []  # the copy costs more than it saves
        lanes = self._shape.lanes(sref.block.writes[0].buffer.dtype.bits)
        return [
            tile_builder.TileVariant(
                vectors * lanes, packed=True, place=tile_builder.ProducerPlace.BEFORE, turned=True
            )
            for vectors in self._widths(contraction, lanes)
        ]


def _why_no_tile(block: Block) -> str:
    """Why none of the ways to tile a block has worked."""
    if all_iters_spatial(block):
        return NO_REDUCTION
    if (contraction := Contraction.of(block)) is None:
        return "it is not a sum of products that runs along the last axis of its result"
    if contraction.right is None:
        return "no input is contiguous along the last axis of its result"
    return "no register tile fits the program around it"


def _turned(block: StmtSRef) -> Contraction | None:
    """A contraction whose right operand lies across the vectors; its only one."""
    contraction = Contraction.of(block.block, any_layout=True)
    if contraction is None or contraction.right is None or not contraction.rows:
        return None
    return (
        contraction if len(contraction.left) == len(BlockNest(block.block).operands) - 1 else None
    )


def _used_shares(contraction: Contraction, lanes: int, most: int) -> dict[int, float]:
    """The share of lanes that are not wasted in the last tile, by the vectors in a row of it."""
    width = contraction.extents[contraction.vector]
    limit = contraction.vector_limit or width
    return {
        count: tile_builder.used_share(width, count * lanes)
        for count in range(1, most + 1)
        if limit >= width or limit % (count * lanes) == 0
    }


def _is_worth_packing(
    func: PrimFunc, block: StmtSRef, contraction: Contraction, producers: Sequence[StmtSRef]
) -> bool:
    """Copies pay if they are made once, or of a large input that many rows use again."""
    assert contraction.right is not None
    buffer = block.block.reads[contraction.right].buffer
    if any(write.buffer is buffer for producer in producers for write in producer.block.writes):
        return False
    if is_layout_free(func, buffer):
        return True
    return _is_reused(contraction) and whole_bytes(buffer) >= PACKING_BYTES


def _ways_to_store(
    func: PrimFunc, block: StmtSRef, contraction: Contraction, wide: int
) -> tuple[bool, ...]:
    """The right operand as it is, in panels, or both; one of them where packing costs nothing."""
    assert contraction.right is not None
    buffer = block.block.reads[contraction.right].buffer
    if not has_bound_weights(func) or not is_layout_free(func, buffer):
        return (False, True)
    is_one_panel = contraction.extents[contraction.vector] <= wide
    return (not is_one_panel and whole_bytes(buffer) >= FREE_PACKING_BYTES,)


def _is_reused(contraction: Contraction) -> bool:
    """True if many rows use each element of the right operand."""
    return _row_count(contraction) >= PACKING_REUSE


def _row_count(contraction: Contraction) -> int:
    return math.prod(contraction.extents[n] for n in contraction.rows)


# Results of that many bytes are gone from the caches before anyone reads them.
LARGE_RESULT = 8 << 20


@dataclass(frozen=True)
class PanelOperands:
    """Operands as they are, or the right one in panels as wide as a tile."""

    site: tile_builder.TileSite

    @property
    def any_layout(self) -> bool:
        return self.site.variant.turned

    def prepare(self) -> None:
        """Nothing to do."""

    def adapt(self, stages: list[BlockRV]) -> list[BlockRV]:
        return stages

    def place(self, contraction: Contraction, task: LoopRV | None) -> None:
        """Copy the right operand into panels, in the order they are read in."""
        if not self.site.variant.packed:
            return
        sch, block, wide = self.site.sch, self.site.block, self.site.variant.columns
        number = contraction.right
        assert number is not None
        region = self.site.stmt.reads[number]
        axis = self._vector_axis(BufferAccess.of(region), contraction)
        copy = sch.cache_read(block, number, "global")
        self.site.mark_packing(copy, region.buffer)

        def panels(*indices: ir.PrimExpr) -> tuple[ir.PrimExpr, ...]:
            outer = list(indices)
            own = outer.pop(axis)
            return (ir.floordiv(own, wide), *outer, ir.floormod(own, wide))

        sch.transform_layout(block, ("read", number), panels, assume_injective_transform=True)
        sch.annotate(copy, keys.TILING_STRUCTURE, tile_builder.STRUCTURE)
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
        depth, line = sch.split(outer[-1], [None, LINE // itemsize])
        group, few = sch.split(lanes, [None, TRANSPOSED_TILE])
        sch.reorder(panel, *outer[:-1], depth, group, line, few)
        write_out(sch, [line], few)

    def _vector_axis(self, right: BufferAccess, contraction: Contraction) -> int:
        """The axis of the right operand that vectors run along."""
        vector = self.site.stmt.iter_vars[contraction.vector].var
        axis = right.axis_of(vector) if self.site.variant.turned else None
        return len(right.indices) - 1 if axis is None else axis


@dataclass(frozen=True)
class VectorRegisters:
    """Results in vector registers; `compute` makes something of the innermost loops."""

    site: tile_builder.TileSite
    wide: int
    vectors: int
    compute: Callable[[tile_builder.TileSite, tile_builder.Tiles], None]
    has_one_row: bool = False

    def write_back(self, tile_loop: LoopRV) -> BlockRV:
        """An elementwise consumer of the results, or a copy."""
        sch, block = self.site.sch, self.site.block
        consumers = neighbours(sch, sch.get_sref(block), before=False)
        if len(consumers) == 1 and _follows(consumers[0].block, self.site.stmt):
            (consumer,) = sch.get_consumers(block)
            sch.reverse_compute_at(consumer, tile_loop, preserve_unit_loops=True)
            sch.set_scope(block, 0, "local")
        else:
            consumer = sch.cache_write(block, 0, "local")
            sch.reverse_compute_at(consumer, tile_loop, preserve_unit_loops=True)
        sch.annotate(consumer, keys.TILING_STRUCTURE, tile_builder.STRUCTURE)
        return consumer

    def store(self, consumer: BlockRV, tile_loop: LoopRV) -> None:
        store_vectors(self.site.sch, consumer, tile_loop, self.wide)

    def finish(self, tiles: tile_builder.Tiles) -> None:
        self.compute(self.site, tiles)


def store_vectors(sch: Schedule, consumer: BlockRV, tile_loop: LoopRV, wide: int) -> None:
    """Write results back by vectors, past the caches if there are many."""
    outside = len(sch.get_sref(tile_loop).loops) + 1
    *rows, lanes = sch.get_loops(consumer)[outside:]
    for loop in rows:
        sch.unroll(loop)
    if rows and _is_large(sch.get_sref(consumer).block.writes[0].buffer, wide):
        sch.annotate(rows[0], keys.STREAM_STORES, 1)
    sch.vectorize(whole_vectors(sch, lanes, wide))


def _is_large(result: ir.Buffer, wide: int) -> bool:
    """Whether a result is better stored past the caches, in whole lines."""
    has_whole_lines = wide * result.dtype.itemsize % LINE == 0
    return has_whole_lines and whole_bytes(result) >= LARGE_RESULT


def register_tile(site: tile_builder.TileSite) -> tile_builder.TileBuilder:
    """A tile of multiply-adds on vectors."""
    wide = site.variant.columns
    vectors = max(1, wide // site.shape.lanes(site.stmt.writes[0].buffer.dtype.bits))
    registers = VectorRegisters(site, wide, vectors, _multiply_add)
    return tile_builder.TileBuilder(site, PanelOperands(site), registers)


def _multiply_add(site: tile_builder.TileSite, tiles: tile_builder.Tiles) -> None:
    """Make the innermost loop a vector, and the initialisation a step of its own."""
    site.sch.vectorize(tiles.lanes)
    site.sch.decompose_reduction(site.block, tiles.depth[0])


def is_elementwise(consumer: ir.Block, maker: ir.Block) -> bool:
    """True when a block makes one element of its result from the same element of another's."""
    nest = BlockNest(consumer)
    if len(nest.writes) != 1 or not all_iters_spatial(consumer):
        return False
    made = [access for access in nest.reads if access.buffer is maker.writes[0].buffer]
    return bool(made) and made[0].is_at(nest.writes[0])


def _follows(consumer: ir.Block, maker: ir.Block) -> bool:
    """True if a block is elementwise, but for the places that `SeparatePhases` gave to results."""
    if is_elementwise(consumer, maker):
        return True
    contraction, nest = Contraction.of(maker), BlockNest(consumer)
    if contraction is None or not contraction.phases or not all_iters_spatial(consumer):
        return False
    made = [access for access in nest.reads if access.buffer is maker.writes[0].buffer]
    return (
        len(made) == 1 and len(made[0].indices) == len(nest.iters) and made[0].ends_in(nest.iters)
    )
