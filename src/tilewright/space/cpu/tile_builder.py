"""Building one register tile: results that stay in vector registers for a whole reduction.

`TileBuilder` carries out one `TileVariant` on a schedule; rules decide which variants there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tilewright.ir import (
    Block,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    FloatImm,
    IntImm,
    IterType,
    PrimExpr,
    expr_deep_equal,
    floordiv,
    floormod,
)
from tilewright.ir.annotation_keys import (
    LAYOUT_REWRITE_PREPROC,
    SKIP_ZERO_TERMS,
    STREAM_STORES,
    TILING_STRUCTURE,
)
from tilewright.ir.op import Op
from tilewright.schedule import BlockRV, ExprRV, LoopRV, Schedule
from tilewright.schedule.analysis import is_spatial
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.schedule.state.scope import loops_of
from tilewright.space.conditions import is_tiled
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.cpu.elementwise_loops import (
    TRANSPOSED_TILE,
    move_beside,
    own_pass,
    whole_vectors,
)
from tilewright.space.cpu.vector_shape import VectorShape
from tilewright.space.layout_free import is_layout_free

STRUCTURE = "register tile"
_IF_THEN_ELSE = Op.get("tir.if_then_else")
LEAST_USE = 0.8  # of what the best tile size makes of the registers
RAGGED = 0.85  # what is left of the speed where tiles do not divide
ROW_CHOICES = 6
ENOUGH_EVEN_TILES = 2  # where so many divide, ragged ones are not worth their code
BLOCK_CHOICES = 6
DEPTH_STEPS = (1, 2, 4)
# Accumulators that hide the latency of a multiply-add on the processors we know.
ENOUGH_ACCUMULATORS = 12
# A reduction window of up to this many steps (3 x 3) is written out whole.
WINDOW = 9
# Results of that many bytes are gone from the caches before anyone reads them.
LARGE_RESULT = 8 << 20
CACHE_LINE = 64


class Place(Enum):
    """Where producers are computed."""

    BEFORE = "in a pass of their own"
    BESIDE = "beside the rows that need them"
    INLINE = "where they are used"


@dataclass(frozen=True)
class TileVariant:
    """What distinguishes one sketch from another."""

    columns: int  # of a tile
    packed: bool  # the right operand is copied into panels first
    place: Place  # of producers
    packing: Place = Place.BEFORE  # where those copies are made
    turned: bool = False  # the right operand lies across the vectors: only its copy will do


@dataclass(frozen=True)
class Tiles:
    """The loops of a tiled block, outermost first."""

    tasks: Sequence[LoopRV]  # run in parallel
    columns: LoopRV
    home: LoopRV  # one iteration of it makes one tile
    depth: Sequence[LoopRV]
    steps: Sequence[LoopRV]  # written out
    rows: Sequence[LoopRV]  # written out
    lanes: LoopRV


@dataclass(frozen=True)
class Rows:
    """The pieces of all row loops."""

    tasks: list[LoopRV]
    inside: list[LoopRV]  # of a task
    tile: list[LoopRV]


class NotTiled(Exception):
    """The block, or what surrounds it, has no place for a register tile."""


class TileBuilder:
    """Builds one sketch."""

    def __init__(
        self, sch: Schedule, block: BlockRV, variant: TileVariant, shape: VectorShape, cores: int
    ) -> None:
        self._sch = sch
        self._block = block
        self._variant = variant
        self._shape = shape
        self._cores = cores
        self._units: Sequence[LoopRV] = ()  # loops inside of all others

    def run(self) -> None:
        sch, block = self._sch, self._block
        sch.annotate(block, TILING_STRUCTURE, STRUCTURE)
        stages = self._inline_moves()
        self._found = self._contraction()
        tiles = self._split(sch.get_loops(block))
        write_back = self._write_back(tiles.home)
        self._align_rows()
        beside = self._variant.place is Place.BESIDE
        tasks = [*tiles.tasks] if beside else [*tiles.tasks, tiles.columns]
        task = sch.fuse(*tasks) if len(tasks) > 1 else tasks[0]
        home = task if any(loop is tiles.home for loop in tasks) else tiles.home
        sch.parallel(task)
        self._place_operands(task)
        for stage in stages:
            if beside:
                move_beside(sch, stage, task)
            else:
                own_pass(sch, stage)
        for loop in (*tiles.steps, *tiles.rows):
            sch.unroll(loop)
        if self._found.periods or self._variant.place is Place.INLINE:
            sch.annotate(tiles.depth[0], SKIP_ZERO_TERMS, 1)
        self._write_back_by_vectors(write_back, home)
        self._finish(tiles)

    def _contraction(self) -> Contraction:
        """The computation of the block as it is now."""
        found = Contraction.of(self._sch.get_sref(self._block).block, self._variant.turned)
        if found is None or found.right is None:
            raise NotTiled
        return found

    def _finish(self, tiles: Tiles) -> None:
        """Make the innermost loop a vector, and the initialisation a step of its own."""
        self._sch.vectorize(tiles.lanes)
        self._sch.decompose_reduction(self._block, tiles.depth[0])

    @property
    def _vectors(self) -> int:
        """How many registers wide a tile is."""
        return max(1, self._variant.columns // self._shape.lanes(self._element_bits))

    @property
    def _wide(self) -> int:
        """How many elements wide a tile is."""
        return self._variant.columns

    # --- what surrounds the block ---------------------------------------------------------------

    def _inline_moves(self) -> list[BlockRV]:
        """Producers of the left operand that only move data vanish; the others are returned.

        So does padding, if that is what the variant is about.
        """
        sch = self._sch
        reads = sch.get_sref(self._block).block.reads
        left = [reads[n].buffer for n in self._contraction().left]
        stages = []
        for producer in sch.get_producers(self._block):
            if is_tiled(sch.get_sref(producer)):
                continue
            stmt = sch.get_sref(producer).block
            if not is_spatial(sch, producer):
                raise NotTiled
            moves = _only_moves(stmt) and any(stmt.writes[0].buffer is buffer for buffer in left)
            if moves or (self._variant.place is Place.INLINE and pads(stmt)):
                sch.compute_inline(producer)
            else:
                stages.append(producer)
        return stages

    def _write_back(self, home: LoopRV) -> BlockRV:
        """The block that takes results out of the registers: an elementwise consumer, or a copy."""
        sch, block = self._sch, self._block
        consumers = neighbours(sch, sch.get_sref(block), before=False)
        if len(consumers) == 1 and _is_elementwise(consumers[0].block, sch.get_sref(block).block):
            (taker,) = sch.get_consumers(block)
            sch.reverse_compute_at(taker, home, preserve_unit_loops=True)
            sch.set_scope(block, 0, "local")
            sch.annotate(taker, TILING_STRUCTURE, STRUCTURE)
            return taker
        taker = sch.cache_write(block, 0, "local")
        sch.reverse_compute_at(taker, home, preserve_unit_loops=True)
        sch.annotate(taker, TILING_STRUCTURE, STRUCTURE)
        return taker

    def _align_rows(self) -> None:
        """Where one ragged tile is as wide as the result, rows of registers are as wide as it."""
        found, wide = self._found, self._variant.columns
        if found.extents[found.vector] < wide and found.rows:
            self._sch.storage_align(self._block, 0, -2, wide, 0)

    def _write_back_by_vectors(self, taker: BlockRV, home: LoopRV) -> None:
        sch = self._sch
        outside = len(loops_of(sch.get_sref(home))) + 1
        *rows, lanes = sch.get_loops(taker)[outside:]
        for loop in rows:
            sch.unroll(loop)
        if rows and self._is_large(sch.get_sref(taker).block.writes[0].buffer):
            sch.annotate(rows[0], STREAM_STORES, 1)
        sch.vectorize(whole_vectors(sch, lanes, self._wide))

    def _is_large(self, result: Buffer) -> bool:
        """Whether a result is better stored past the caches, in whole lines."""
        extents = [extent.value for extent in result.shape if isinstance(extent, IntImm)]
        if len(extents) < len(result.shape) or self._wide * result.dtype.itemsize % CACHE_LINE:
            return False
        return math.prod(extents) * result.dtype.itemsize >= LARGE_RESULT

    def _place_operands(self, task: LoopRV) -> None:
        """Bring operands into the order they are read in; an iteration of `task` is one task."""
        if self._variant.packed:
            self._pack_right()

    def _pack_right(self) -> None:
        """Copy the right operand into panels as wide as a tile, in the order they are read in."""
        sch, block, wide = self._sch, self._block, self._variant.columns
        number = self._found.right
        assert number is not None
        region = sch.get_sref(block).block.reads[number]
        axis = self._vector_axis(region)
        copy = sch.cache_read(block, number, "global")
        self._mark_packing(copy, region.buffer)

        def panels(*indices: PrimExpr) -> tuple[PrimExpr, ...]:
            outer = list(indices)
            own = outer.pop(axis)
            return (floordiv(own, wide), *outer, floormod(own, wide))

        sch.transform_layout(block, ("read", number), panels, assume_injective_transform=True)
        sch.annotate(copy, TILING_STRUCTURE, STRUCTURE)
        outer = list(sch.get_loops(copy))
        panel, lanes = sch.split(outer.pop(axis), [None, wide])
        if self._variant.turned and outer and wide % TRANSPOSED_TILE == 0:
            self._pack_by_tiles(panel, outer, lanes, region.buffer.dtype.itemsize)
        else:
            sch.reorder(panel, *outer, lanes)
            sch.vectorize(lanes)
        sch.parallel(panel)

    def _pack_by_tiles(
        self, panel: LoopRV, outer: Sequence[LoopRV], lanes: LoopRV, itemsize: int
    ) -> None:
        """Transpose by tiles: a few lines of the operand are read to their ends before others."""
        sch = self._sch
        depth, line = sch.split(outer[-1], [None, CACHE_LINE // itemsize])
        group, few = sch.split(lanes, [None, TRANSPOSED_TILE])
        sch.reorder(panel, *outer[:-1], depth, group, line, few)
        sch.unroll(line)
        sch.vectorize(few)

    def _vector_axis(self, region: BufferRegion) -> int:
        """The axis of the right operand that vectors run along."""
        if not self._variant.turned:
            return len(region.region) - 1
        vector = self._sch.get_sref(self._block).block.iter_vars[self._found.vector].var
        return next(n for n, axis in enumerate(region.region) if axis.min is vector)

    def _mark_packing(self, copy: BlockRV, source: Buffer) -> None:
        """Tell whoever builds the program which copies are made of constants, once."""
        sch = self._sch
        func = sch.mod[sch.state.function_of(sch.get_sref(copy))]
        if is_layout_free(func, source):
            sch.annotate(copy, LAYOUT_REWRITE_PREPROC, True)

    # --- loops ----------------------------------------------------------------------------------

    def _split(self, loops: Sequence[LoopRV]) -> Tiles:
        """Cut all loops and bring the pieces in order."""
        sch, found = self._sch, self._found
        rows = self._split_rows(loops)
        columns, lanes = sch.split(loops[found.vector], [None, self._variant.columns])
        depth, steps = self._split_depth(loops)
        tasks = [*(loops[n] for n in found.batch), *rows.tasks]
        sch.reorder(*tasks, columns, *rows.inside, *depth, *steps, *rows.tile, lanes, *self._units)
        home = [columns, *rows.inside][-1]
        return Tiles(tasks, columns, home, depth, steps, rows.tile, lanes)

    def _split_rows(self, loops: Sequence[LoopRV]) -> Rows:
        """Cut tiles from row loops, and blocks for tasks from the outermost long one."""
        sch, found = self._sch, self._found
        sizes = self._row_choices()
        blocked = next((n for n in found.rows if found.extents[n] > 1), None)
        rows = Rows([], [], [])
        for n in found.rows:
            tile = [self._choose(sizes[n])] if n in sizes else []
            outside = rows.tasks if blocked is None or n < blocked else rows.inside
            if n == blocked:
                counts = _block_counts(found.extents[n], sizes.get(n, [1]), self._cores)
                block, inside, *piece = sch.split(loops[n], [self._choose(counts), None, *tile])
                rows.tasks.append(block)
                rows.inside.append(inside)
                rows.tile.extend(piece)
            elif tile:
                outer, piece_of_tile = sch.split(loops[n], [None, *tile])
                outside.append(outer)
                rows.tile.append(piece_of_tile)
            else:
                outside.append(loops[n])
        return rows

    def _row_choices(self) -> dict[int, list[int]]:
        """For each loop that is tiled, the tile sizes to choose from."""
        found = self._found
        vectors = self._vectors
        limit = self._shape.tile_rows(vectors)
        if is_window(self._found):  # all of its right operand stays in registers, too
            limit = max(1, limit // 2)
        long = [n for n in found.rows if found.extents[n] > 1]
        choices: dict[int, list[int]] = {}
        for n in reversed(long):
            period = found.periods.get(n, 1)
            if period > 1 and choices:
                choices[n] = [period]
                continue
            share = math.prod(found.periods.get(m, 1) for m in long if m != n)
            sizes = _tile_sizes(found.extents[n], max(1, limit // share), period, vectors)
            if not choices or period > 1:
                choices[n] = sizes
            elif max(choices[long[-1]]) * 2 <= limit:  # the innermost one leaves registers free
                room = limit // max(choices[long[-1]])
                choices[n] = [size for size in range(1, room + 1) if found.extents[n] % size == 0]
                break
        return choices

    def _split_depth(self, loops: Sequence[LoopRV]) -> tuple[list[LoopRV], list[LoopRV]]:
        """Reduction loops that stay loops, and pieces of them that are written out."""
        sch, found = self._sch, self._found
        depth: list[LoopRV] = []
        steps: list[LoopRV] = []
        whole = is_window(self._found)
        for n in found.depth:
            loop, extent = loops[n], found.extents[n]
            period = found.periods.get(n, 1)
            if whole and depth:
                steps.append(loop)
            elif period > 1 and extent % period == 0:
                outer, piece = sch.split(loop, [None, period])
                depth.append(outer)
                steps.append(piece)
            elif n == found.depth[-1] and extent > DEPTH_STEPS[-1]:
                sizes = [size for size in DEPTH_STEPS if extent % size == 0]
                outer, piece = sch.split(loop, [None, self._choose(sizes)])
                depth.append(outer)
                steps.append(piece)
            else:
                depth.append(loop)
        return depth, steps

    # --- choices --------------------------------------------------------------------------------

    @property
    def _element_bits(self) -> int:
        return self._sch.get_sref(self._block).block.writes[0].buffer.dtype.bits

    def _choose(self, candidates: Sequence[int]) -> ExprRV | int:
        if len(candidates) == 1:
            return candidates[0]
        share = 1.0 / len(candidates)
        return self._sch.sample_categorical(candidates, [share] * len(candidates))


def used_share(extent: int, size: int) -> float:
    """The share of the work in tiles that is not thrown away."""
    share = extent / (math.ceil(extent / size) * size)
    return share if extent % size == 0 else share * RAGGED


def _tile_sizes(extent: int, limit: int, period: int, vectors: int) -> list[int]:
    """Tile sizes along one loop, best first: little waste, enough independent accumulators."""

    def quality(size: int) -> float:
        return used_share(extent, size) * min(1.0, size * vectors / ENOUGH_ACCUMULATORS)

    sizes = [size for size in range(period, min(limit, extent) + 1, period)] or [period]
    best = max(map(quality, sizes))
    good = [size for size in sizes if quality(size) >= LEAST_USE * best]
    even = [size for size in good if extent % size == 0]
    chosen = even if len(even) >= ENOUGH_EVEN_TILES else good
    return sorted(sorted(chosen, key=quality, reverse=True)[:ROW_CHOICES])


def _block_counts(extent: int, tiles: Sequence[int], cores: int) -> list[int]:
    """Into how many blocks a loop may be cut: one, or some for each core."""
    most = -(-extent // min(tiles))
    counts = {1, *(cores * 2**power for power in range(5))}
    alone = {most} if len(tiles) == 1 else set()
    return sorted({n for n in counts if n <= most} | alone)[:BLOCK_CHOICES]


def is_window(found: Contraction) -> bool:
    """Is the reduction short enough to be written out?"""
    return math.prod(found.extents[n] for n in found.depth) <= WINDOW


def pads(stmt: Block) -> bool:
    """True for a block that copies elements, and puts zeros around them."""
    match stmt.body:
        case BufferStore(value=Call(op=op, args=(_, BufferLoad(), IntImm() | FloatImm() as zero))):
            return op is _IF_THEN_ELSE and zero.value == 0
    return False


def _only_moves(stmt: Block) -> bool:
    return isinstance(stmt.body, BufferStore) and isinstance(stmt.body.value, BufferLoad)


def _is_elementwise(taker: Block, maker: Block) -> bool:
    """True when a block makes one element of its result from the same element of another's."""
    if len(taker.writes) != 1 or any(v.iter_type is not IterType.DATA_PAR for v in taker.iter_vars):
        return False
    made = maker.writes[0].buffer
    written = [axis.min for axis in taker.writes[0].region]
    for region in taker.reads:
        if region.buffer is made:
            read = [axis.min for axis in region.region]
            return len(read) == len(written) and all(map(expr_deep_equal, read, written))
    return False
