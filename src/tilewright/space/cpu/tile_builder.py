"""Building one register tile: results that stay in vector registers for a whole reduction.

`TileBuilder` carries out one `TileVariant` on a schedule; rules decide which variants there are. It
is made of two parts that differ: `Operands` bring data to a tile, `Registers` hold its results.
`register_tile` has those for vectors, `space/tensor` those for tensor instructions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from tilewright import ir
from tilewright.ir import annotation_keys as keys
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.schedule.analysis import is_spatial
from tilewright.space.conditions import is_tiled
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.cpu.cpu_rule import VectorShape
from tilewright.space.cpu.elementwise_loops import choose, move_beside, own_pass
from tilewright.space.layout_free import is_layout_free

STRUCTURE = "register tile"
_IF_THEN_ELSE = ir.Op.get("tir.if_then_else")
LEAST_USE = 0.8  # of what the best tile size makes of the registers
RAGGED = 0.85  # what is left of the speed where tiles do not divide
MANY_STEPS = 4  # of a reduction: a longer one is not written out as a whole
# Accumulators that hide the latency of a multiply-add on the processors we know.
ENOUGH_ACCUMULATORS = 12
# A reduction window of up to this many steps (3 x 3) is written out; one that every vector of
# results has for itself (depthwise, 7 x 7) may be larger: its rows share what they load.
WINDOW, OWN_WINDOW = 9, 49


@dataclass(frozen=True)
class Breadth:
    """How much a search may choose from."""

    least_use: float  # of what the best tile size makes of the registers
    row_choices: int
    enough_even_tiles: int  # that divide; where there are as many, ragged ones are not worth it
    block_choices: int
    depth_steps: tuple[int, ...]  # of a reduction that are written out


NARROW = Breadth(LEAST_USE, 6, 2, 6, (1, 2, 4))
WIDE = Breadth(0.5, 16, 16, 8, (1, 2, 3, 4, 8))


class ProducerPlace(Enum):
    """Where producers are computed."""

    BEFORE = "in a pass of their own"
    BESIDE = "beside the rows that need them"
    INLINE = "where they are used"


@dataclass(frozen=True)
class TileVariant:
    """What distinguishes one sketch from another."""

    columns: int  # of a tile
    packed: bool  # the right operand is copied into panels first
    place: ProducerPlace  # of producers
    packing: ProducerPlace = ProducerPlace.BEFORE  # where those copies are made
    turned: bool = False  # the right operand lies across the vectors: only its copy will do
    rows_outside: bool = False  # of the loop over columns


@dataclass(frozen=True)
class TileSite:
    """A block in a schedule of its own, the tile it is to get, and the machine it is for."""

    sch: Schedule
    block: BlockRV
    variant: TileVariant
    shape: VectorShape
    cores: int
    breadth: Breadth = NARROW

    @property
    def stmt(self) -> ir.Block:
        """The block as it is now."""
        return self.sch.get_sref(self.block).block

    @property
    def func(self) -> ir.PrimFunc:
        """The function around it."""
        return self.sch.mod[self.sch.state.function_of(self.sch.get_sref(self.block))]

    def mark_packing(self, copy: BlockRV, source: ir.Buffer) -> None:
        """Tell whoever builds the program which copies are made of constants, once."""
        if is_layout_free(self.func, source):
            self.sch.annotate(copy, keys.LAYOUT_REWRITE_PREPROC, True)

    def own_loops(self, block: BlockRV, task: LoopRV | None) -> list[LoopRV]:
        """The loops of a block that prepares operands: all, or what a task needs of them."""
        if task is None:
            return self.sch.get_loops(block)
        self.sch.compute_at(block, task, preserve_unit_loops=True)
        return self.sch.get_loops(block)[len(self.sch.get_sref(task).loops) + 1 :]


@dataclass(frozen=True)
class Tiles:
    """The loops of a tiled block, outermost first."""

    tasks: Sequence[LoopRV]  # run in parallel
    columns: LoopRV
    phases: Sequence[LoopRV]  # written out: in each of them, other terms are zero
    tile_loop: LoopRV  # one iteration of it makes one tile
    depth: Sequence[LoopRV]
    steps: Sequence[LoopRV]  # written out
    rows: Sequence[LoopRV]  # written out
    lanes: LoopRV
    units: Sequence[LoopRV]  # of a tensor instruction


@dataclass(frozen=True)
class Units:
    """The loops of a tensor instruction: iterators by position, with extents, as they are cut."""

    sizes: Mapping[int, int] = field(default_factory=dict)
    order: Sequence[int] = ()  # outermost first


@dataclass(frozen=True)
class Rows:
    """The pieces of all row loops."""

    tasks: list[LoopRV]
    phases: list[LoopRV]
    inside: list[LoopRV]  # of a task and a phase
    tile: list[LoopRV]


class NotTiled(Exception):
    """The block, or what surrounds it, has no place for a register tile."""


# --- what tiles differ in -----------------------------------------------------------------------


class Operands(Protocol):
    """Brings operands to where, and into the order in which, the innermost loops read them."""

    @property
    def any_layout(self) -> bool:
        """Whether the right operand may lie across the vectors, since it is copied."""

    def prepare(self) -> None:
        """Change the block before producers are inlined."""

    def adapt(self, stages: list[BlockRV]) -> list[BlockRV]:
        """Change it afterwards; the producers that are left to be scheduled."""

    def place(self, contraction: Contraction, task: LoopRV | None) -> None:
        """Copy operands: in each task, which is an iteration of `task`, or before all of them."""


class Registers(Protocol):
    """Holds the results of a tile for the whole reduction."""

    @property
    def vectors(self) -> int:
        """Registers in a row of a tile."""

    @property
    def wide(self) -> int:
        """Elements in a row of a tile."""

    @property
    def has_one_row(self) -> bool:
        """Whether a tile is no more than one unit of an instruction."""

    def write_back(self, tile_loop: LoopRV) -> BlockRV:
        """The block that takes results out of the registers."""

    def store(self, consumer: BlockRV, tile_loop: LoopRV) -> None:
        """Schedule that block."""

    def finish(self, tiles: Tiles) -> None:
        """Make a step of the innermost loops, and one of the initialisation."""


# --- what all tiles share -----------------------------------------------------------------------


class TileBuilder:
    """Builds one sketch."""

    def __init__(
        self, site: TileSite, operands: Operands, registers: Registers, units: Units | None = None
    ) -> None:
        self._site = site
        self._sch, self._block, self._variant = site.sch, site.block, site.variant
        self._operands = operands
        self._registers = registers
        self._units = units or Units()

    def run(self) -> None:
        """Do all that is needed; raises `NotTiled` or a `ScheduleError` where it is impossible."""
        sch, block = self._sch, self._block
        sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
        self._operands.prepare()
        stages = self._operands.adapt(self._inline_moves())
        self._contraction = self._find_contraction()
        beside = self._variant.place is ProducerPlace.BESIDE
        packs_early = self._variant.packing is ProducerPlace.BEFORE
        # What does not depend on choices comes before them: replays begin behind it.
        if packs_early:
            self._operands.place(self._contraction, None)
        for stage in () if beside else stages:
            own_pass(sch, stage)
        tiles = self._split(sch.get_loops(block))
        consumer = self._registers.write_back(tiles.tile_loop)
        self._align_rows()
        shares_columns = not beside and not self._variant.rows_outside
        tasks = [*tiles.tasks, tiles.columns] if shares_columns else [*tiles.tasks]
        task = sch.fuse(*tasks) if len(tasks) > 1 else tasks[0]
        tile_loop = task if any(loop is tiles.tile_loop for loop in tasks) else tiles.tile_loop
        sch.parallel(task)
        if not packs_early:
            self._operands.place(self._contraction, task)
        for stage in stages if beside else ():
            move_beside(sch, stage, task)
        for loop in (*tiles.phases, *tiles.steps, *tiles.rows):
            sch.unroll(loop)
        if self._contraction.periods or self._variant.place is ProducerPlace.INLINE:
            sch.annotate(tiles.depth[0], keys.SKIP_ZERO_TERMS, 1)
        self._registers.store(consumer, tile_loop)
        self._registers.finish(tiles)

    def _find_contraction(self) -> Contraction:
        """The computation of the block as it is now."""
        contraction = Contraction.of(self._site.stmt, self._operands.any_layout)
        if contraction is None or contraction.right is None:
            raise NotTiled
        return contraction

    def _inline_moves(self) -> list[BlockRV]:
        """Producers of the left operand that only move data vanish; the others are returned.

        So does padding, if that is what the variant is about.
        """
        sch = self._sch
        reads = self._site.stmt.reads
        left = [reads[n].buffer for n in self._find_contraction().left]
        stages = []
        for producer in sch.get_producers(self._block):
            if is_tiled(sch.get_sref(producer)):
                continue
            stmt = sch.get_sref(producer).block
            if not is_spatial(sch, producer):
                raise NotTiled
            match stmt.body:
                case ir.BufferStore(value=ir.BufferLoad()):
                    moves = any(stmt.writes[0].buffer is buffer for buffer in left)
                case _:
                    moves = False
            if moves or (self._variant.place is ProducerPlace.INLINE and pads(stmt)):
                sch.compute_inline(producer)
            else:
                stages.append(producer)
        return stages

    def _align_rows(self) -> None:
        """Where one ragged tile is as wide as the result, rows of registers are as wide as it."""
        contraction, wide = self._contraction, self._variant.columns
        if contraction.extents[contraction.vector] < wide and contraction.rows:
            self._sch.storage_align(self._block, 0, -2, wide, 0)

    def _split(self, loops: Sequence[LoopRV]) -> Tiles:
        """Cut all loops, those of an instruction first, and bring the pieces in order."""
        sch, loops = self._sch, list(loops)
        units = self._cut_units(loops)
        rows = self._split_rows(loops)
        columns, lanes = sch.split(loops[self._contraction.vector], [None, self._variant.columns])
        depth, steps = self._split_depth(loops)
        tasks = [*(loops[n] for n in self._contraction.batch), *rows.tasks]
        inside = [*rows.phases, *rows.inside]
        outside = [*inside, columns] if self._variant.rows_outside else [columns, *inside]
        sch.reorder(*tasks, *outside, *depth, *steps, *rows.tile, lanes, *units)
        tile_loop = outside[-1]
        return Tiles(tasks, columns, rows.phases, tile_loop, depth, steps, rows.tile, lanes, units)

    def _cut_units(self, loops: list[LoopRV]) -> list[LoopRV]:
        """Cut the loops of an instruction off; what is left is counted in its units."""
        extents, pieces = list(self._contraction.extents), {}
        for n, size in self._units.sizes.items():
            loops[n], pieces[n] = self._sch.split(loops[n], [None, size])
            extents[n] //= size
        self._contraction = replace(self._contraction, extents=tuple(extents))
        return [pieces[n] for n in self._units.order]

    def _split_rows(self, loops: Sequence[LoopRV]) -> Rows:
        """Cut tiles from row loops, and blocks for tasks from the outermost long one."""
        sch, contraction = self._sch, self._contraction
        sizes, phases = self._row_choices(), contraction.phases
        blocked = next(
            (n for n in contraction.rows if contraction.extents[n] > 1 and n not in phases), None
        )
        rows = Rows([], [], [], [])
        for n in contraction.rows:
            if n in phases:
                rows.phases.append(loops[n])
                continue
            tile = [choose(sch, sizes[n])] if n in sizes else []
            outside = rows.tasks if blocked is None or n < blocked else rows.inside
            if n == blocked:
                counts = _block_counts(
                    contraction.extents[n],
                    sizes.get(n, [1]),
                    self._site.cores,
                    self._site.breadth.block_choices,
                )
                if self._variant.rows_outside:  # nothing but blocks keeps all cores busy
                    counts = [count for count in counts if count >= self._site.cores] or counts
                block, inside, *piece = sch.split(loops[n], [choose(sch, counts), None, *tile])
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
        contraction, vectors = self._contraction, self._registers.vectors
        wide = self._registers.wide
        limit = self._site.shape.tile_rows(self._site.stmt, wide, wide // vectors)
        if is_window(contraction):  # all of its right operand stays in registers, too
            limit = max(1, limit // 2)
        long = [
            n
            for n in contraction.rows
            if contraction.extents[n] > 1 and n not in contraction.phases
        ]
        choices: dict[int, list[int]] = {}
        for n in reversed(long):
            period = contraction.periods.get(n, 1)
            if period > 1 and choices:
                choices[n] = [period]
                continue
            share = math.prod(contraction.periods.get(m, 1) for m in long if m != n)
            most = max(1, limit // share)
            sizes = _tile_sizes(contraction.extents[n], most, period, vectors, self._site.breadth)
            if not choices or period > 1:
                choices[n] = sizes
            elif max(choices[long[-1]]) * 2 <= limit:  # the innermost one leaves registers free
                room = limit // max(choices[long[-1]])
                choices[n] = [
                    size for size in range(1, room + 1) if contraction.extents[n] % size == 0
                ]
                break
        return {n: [1] for n in choices} if self._registers.has_one_row else choices

    def _split_depth(self, loops: Sequence[LoopRV]) -> tuple[list[LoopRV], list[LoopRV]]:
        """Reduction loops that stay loops, and pieces of them that are written out."""
        sch, contraction = self._sch, self._contraction
        depth: list[LoopRV] = []
        steps: list[LoopRV] = []
        whole = is_window(contraction)
        for n in contraction.depth:
            loop, extent = loops[n], contraction.extents[n]
            period = contraction.periods.get(n, 1)
            if whole and depth:
                steps.append(loop)
            elif period > 1 and extent % period == 0:
                outer, piece = sch.split(loop, [None, period])
                depth.append(outer)
                steps.append(piece)
            elif n == contraction.depth[-1] and extent > MANY_STEPS:
                sizes = [size for size in self._site.breadth.depth_steps if extent % size == 0]
                outer, piece = sch.split(loop, [None, choose(sch, sizes)])
                depth.append(outer)
                steps.append(piece)
            else:
                depth.append(loop)
        return depth, steps


def used_share(extent: int, size: int) -> float:
    """The share of the work in tiles that is not thrown away."""
    share = extent / (math.ceil(extent / size) * size)
    return share if extent % size == 0 else share * RAGGED


def _tile_sizes(extent: int, limit: int, period: int, vectors: int, breadth: Breadth) -> list[int]:
    """Tile sizes along one loop, best first: little waste, enough independent accumulators."""

    def quality(size: int) -> float:
        return used_share(extent, size) * min(1.0, size * vectors / ENOUGH_ACCUMULATORS)

    sizes = [size for size in range(period, min(limit, extent) + 1, period)] or [period]
    best = max(map(quality, sizes))
    good = [size for size in sizes if quality(size) >= breadth.least_use * best]
    even = [size for size in good if extent % size == 0]
    chosen = even if len(even) >= breadth.enough_even_tiles else good
    return sorted(sorted(chosen, key=quality, reverse=True)[: breadth.row_choices])


def _block_counts(extent: int, tiles: Sequence[int], cores: int, most_counts: int) -> list[int]:
    """Into how many blocks a loop may be cut: one, or some for each core."""
    most = -(-extent // min(tiles))
    counts = {1, *(cores * 2**power for power in range(5))}
    alone = {most} if len(tiles) == 1 else set()
    return sorted({n for n in counts if n <= most} | alone)[:most_counts]


def is_window(contraction: Contraction) -> bool:
    """True if the reduction is short enough to be unrolled."""
    steps = math.prod(contraction.extents[n] for n in contraction.depth)
    return steps <= (WINDOW if contraction.left else OWN_WINDOW)


def pads(stmt: ir.Block) -> bool:
    """True for a block that copies elements, and puts zeros around them."""
    match stmt.body:
        case ir.BufferStore(
            value=ir.Call(op=op, args=(_, ir.BufferLoad(), ir.IntImm() | ir.FloatImm() as zero))
        ):
            return op is _IF_THEN_ELSE and zero.value == 0
    return False
