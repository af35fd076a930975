"""`TensorTiling`: register tiles whose innermost step is a tensor instruction.

As `RegisterTiling`, with units of work where that has elements: the loops of the instruction are
cut off first, and what is left is tiled in the same way. The accumulators are in the scope that
the instruction wants them in, the right operand is copied into the order it reads. Operands that
only differ in their sign from what it takes are shifted, extents that do not divide are padded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.ir import Block, DType, IterType, PrimExpr, Var, floordiv, floormod
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.space.annotations import TILING_STRUCTURE
from tilewright.space.base import ScheduleRule, schedule_rules
from tilewright.space.conditions import is_root, is_tiled
from tilewright.space.contraction import Contraction, is_plain_term
from tilewright.space.rules.passes import enough_tasks, extent_of
from tilewright.space.rules.tile_builder import (
    STRUCTURE,
    NotTiled,
    Place,
    TileBuilder,
    Tiles,
    TileVariant,
)
from tilewright.space.tensor_tile import TensorTile
from tilewright.space.vector_shape import VectorShape

MAX_VECTORS = 4
PACK_WIDTHS = (16, 8)
START_VECTORS = 4  # of sums side by side
_SIGNED = {"uint8": "int8", "int8": "uint8"}


@dataclass(frozen=True)
class TensorGroup:
    """The instructions of a computation: what sums up, and where sums live in a place of their own,
    what sets them to zero and what gets them out."""

    compute: str
    fill: str | None = None
    store: str | None = None

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [name for name in (self.compute, self.fill, self.store) if name is not None]


@schedule_rules.register("TensorTiling")
class TensorTiling(ScheduleRule):
    """Tiles contractions around the first of some instructions that fits; plain ones compete.

    An instruction is given by its name, or as the names of a group (`compute`, `fill`, `store`).
    """

    def __init__(self, intrin_names: Sequence[str | Mapping[str, str]]) -> None:
        self.intrin_names = tuple(intrin_names)
        self._groups = [
            TensorGroup(given) if isinstance(given, str) else TensorGroup(**given)
            for given in intrin_names
        ]
        for name in (name for group in self._groups for name in group.names):
            TensorIntrin.get(name)  # raises if there is no such instruction
        self._shape = VectorShape.default()
        self._cores = 1
        self._features: frozenset[str] = frozenset()

    def _initialize_with_tune_context(self, context: Any) -> None:
        if context.target is not None:
            self._shape = VectorShape.of(context.target)
            self._cores = max(1, context.target.num_cores)
            self._features = frozenset(context.target.features)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        if is_root(sref) or is_tiled(sref):
            return [sch]
        found = Contraction.of(sref.block, any_layout=True)
        if found is None or found.right is None or len(found.left) != 1:
            return [sch]
        for group, fit in self._fits(sref.block, found):
            sketches = self._sketches(sch, block, fit, group)
            if sketches:
                return [*sketches, sch]
        return [sch]

    def _fits(self, block: Block, found: Contraction) -> list[tuple[TensorGroup, Fit]]:
        """The instructions that fit a block; first those that take its operands as they are."""
        fits = []
        for group in self._groups:
            intrin = TensorIntrin.get(group.compute)
            tile = None if intrin is None else TensorTile.of(intrin)
            if intrin is None or tile is None or not intrin.features <= self._features:
                continue
            fit = Fit.of(block, found, tile)
            # Only sums that start from zero can be set by a fill instruction.
            if fit is not None and (fit.shifted is None or group.fill is None):
                fits.append((group, fit))
        return sorted(fits, key=lambda pair: pair[1].effort)

    def _sketches(
        self, sch: Schedule, block: BlockRV, fit: Fit, group: TensorGroup
    ) -> list[Schedule]:
        sketches = []
        build = TensorTileBuilder if group.store is None else TileRegisterBuilder
        for variant in self._variants(sch, block, fit, group):
            copy = sch.copy()
            try:
                build(copy, block, variant, self._shape, self._cores, fit, group).run()
            except (NotTiled, ScheduleError):
                continue  # this way does not fit the program around the block
            sketches.append(copy)
        return sketches

    def _variants(
        self, sch: Schedule, block: BlockRV, fit: Fit, group: TensorGroup
    ) -> list[TileVariant]:
        units = -(-fit.found.extents[fit.found.vector] // fit.tile.lanes)
        most = MAX_VECTORS if group.store is None else 1
        widths = [count for count in range(1, most + 1) if units % count == 0]
        wide = [count for count in widths if count > 1] or widths
        places = [Place.BEFORE]
        if neighbours(sch, sch.get_sref(block), before=True) and fit.found.rows:
            places.append(Place.BESIDE)
        return [
            TileVariant(count, packed=not fit.is_packed, place=place)
            for count in wide
            for place in places
        ]


@dataclass(frozen=True)
class Fit:
    """How an instruction fits a contraction; numbers are positions of iterators or of reads."""

    tile: TensorTile
    found: Contraction
    depth: int  # the reduction that the instruction does some steps of
    row: int | None  # the row loop that the instruction does some iterations of
    shifted: int | None  # the read that has the wrong sign
    paddings: tuple[int, ...] | None  # what iterators lack to units
    is_packed: bool  # the right operand is in the order of the instruction

    @property
    def effort(self) -> tuple[bool, bool]:
        """What has to be done to the operands first: shifting costs more than padding."""
        return self.shifted is not None, self.paddings is not None

    @staticmethod
    def of(block: Block, found: Contraction, tile: TensorTile) -> Fit | None:
        """How the instruction fits a block, None if it does not."""
        assert found.right is not None
        (left,) = found.left
        if block.writes[0].buffer.dtype != tile.out.dtype:
            return None
        wrong = [
            number
            for number, wanted in ((left, tile.left), (found.right, tile.right))
            if block.reads[number].buffer.dtype != wanted.dtype
        ]
        if len(wrong) > 1 or any(not _differs_in_sign(block, n, found, tile) for n in wrong):
            return None
        depth = _contiguous_depth(block, found, left)
        row = next((n for n in reversed(found.rows) if found.extents[n] > 1), None)
        if depth is None or (tile.rows > 1 and row is None):
            return None
        units = {found.vector: tile.lanes, depth: tile.depth}
        if tile.rows > 1 and row is not None:
            units[row] = tile.rows
        lacking = tuple(-e % units.get(n, 1) for n, e in enumerate(found.extents))
        return Fit(
            tile,
            found,
            depth,
            row if tile.rows > 1 else None,
            wrong[0] if wrong else None,
            lacking if any(lacking) else None,
            _is_packed(block, found, tile, depth),
        )


def _differs_in_sign(block: Block, number: int, found: Contraction, tile: TensorTile) -> bool:
    wanted = tile.right if number == found.right else tile.left
    return _SIGNED.get(str(block.reads[number].buffer.dtype)) == str(wanted.dtype)


def _contiguous_depth(block: Block, found: Contraction, left: int) -> int | None:
    """The reduction along which the left operand is contiguous and the right one has an axis."""
    assert found.right is not None
    last = block.reads[left].region[-1].min
    axes = [axis.min for axis in block.reads[found.right].region]
    for n in found.depth:
        var = block.iter_vars[n].var
        if is_plain_term(last, var) and any(axis is var for axis in axes):
            return n
    return None


def _is_packed(block: Block, found: Contraction, tile: TensorTile, depth: int) -> bool:
    assert found.right is not None
    if found.extents[found.vector] != tile.lanes or found.extents[depth] != tile.depth:
        return False
    lane, step = block.iter_vars[found.vector].var, block.iter_vars[depth].var
    wanted = tile.right_indices(lane, step)
    axes = [axis.min for axis in block.reads[found.right].region][-len(wanted) :]
    return len(axes) == len(wanted) and all(a is b for a, b in zip(axes, wanted, strict=True))


class TensorTileBuilder(TileBuilder):
    """Builds one sketch; extents are counted in units of the instruction."""

    def __init__(
        self,
        sch: Schedule,
        block: BlockRV,
        variant: TileVariant,
        shape: VectorShape,
        cores: int,
        fit: Fit,
        group: TensorGroup,
    ) -> None:
        super().__init__(sch, block, variant, shape, cores)
        self._fit = fit
        self._tile = fit.tile
        self._group = group

    @property
    def _vectors(self) -> int:
        return self._variant.columns

    @property
    def _wide(self) -> int:
        return self._variant.columns * self._tile.lanes

    def _inline_moves(self) -> list[BlockRV]:
        if self._fit.paddings is not None:
            self._pad(self._fit.paddings)
        stages = super()._inline_moves()
        if self._fit.shifted is not None:
            stages = self._shift(self._fit.shifted, stages)
        return stages

    def _pad(self, paddings: Sequence[int]) -> None:
        """Let the block work on copies that have whole units, and trim its result."""
        sch, block = self._sch, self._block
        stmt = sch.get_sref(block).block
        lacking = {v.var for v, n in zip(stmt.iter_vars, paddings, strict=True) if n}
        for number in (*self._fit.found.left, self._fit.found.right):
            assert number is not None
            if any(axis.min in lacking for axis in stmt.reads[number].region):
                sch.cache_read(block, number, "global")
        if any(axis.min in lacking for axis in stmt.writes[0].region):
            sch.cache_write(block, 0, "global")
        sch.pad_einsum(block, paddings)

    def _shift(self, number: int, stages: Sequence[BlockRV]) -> list[BlockRV]:
        """Give an operand the other sign; what only moved it becomes part of that."""
        sch = self._sch
        source = sch.get_sref(self._block).block.reads[number].buffer
        shifted, start = sch.shift_operand(self._block, number)
        kept = []
        for stage in stages:
            if sch.get_sref(stage).block.writes[0].buffer is source:
                sch.compute_inline(stage)
            else:
                kept.append(stage)
        self._sum_columns(start)
        return [*kept, shifted]

    def _sum_columns(self, start: BlockRV) -> None:
        """The sums that results start from, many columns at a time."""
        sch = self._sch
        loops = sch.get_loops(start)
        stmt = sch.get_sref(start).block
        spatial = [v for v in stmt.iter_vars if v.iter_type is IterType.DATA_PAR]
        if not spatial:
            raise NotTiled
        *outer, columns = loops[: len(spatial)]
        lanes = START_VECTORS * self._shape.lanes(stmt.writes[0].buffer.dtype.bits)
        column, lane = sch.split(columns, [None, lanes])
        depth = loops[len(spatial) :]
        sch.reorder(*outer, column, *depth, lane)
        sch.annotate(start, TILING_STRUCTURE, STRUCTURE)
        sch.parallel(sch.fuse(*outer, column) if outer else column)
        sch.vectorize(lane)
        sch.decompose_reduction(start, depth[0])

    def _contraction(self) -> Contraction:
        found = Contraction.of(self._sch.get_sref(self._block).block, any_layout=True)
        if found is None or found.right is None:
            raise NotTiled
        return found

    def _split(self, loops: Sequence[LoopRV]) -> Tiles:
        """Cut the units off, and tile what is left."""
        sch, fit, tile = self._sch, self._fit, self._tile
        outer, extents = list(loops), list(self._found.extents)
        pieces: dict[Var, LoopRV] = {}
        cuts = [
            (self._found.vector, tile.lane, tile.lanes),
            (fit.depth, tile.depth_iter, tile.depth),
        ]
        if fit.row is not None and tile.row is not None:
            cuts.append((fit.row, tile.row, tile.rows))
        for n, var, size in cuts:
            outer[n], pieces[var] = sch.split(loops[n], [None, size])
            extents[n] //= size
        self._units = [pieces[iter_var.var] for iter_var in tile.iters if iter_var.var in pieces]
        self._found = dataclasses.replace(self._found, extents=tuple(extents))
        return super()._split(outer)

    def _finish(self, tiles: Tiles) -> None:
        sch = self._sch
        sch.unroll(tiles.lanes)
        unit = sch.blockize(self._units[0])
        sch.annotate(unit, TILING_STRUCTURE, STRUCTURE)
        init = sch.decompose_reduction(unit, tiles.depth[0])
        sch.tensorize(unit, self._tile.intrin)
        (step,) = sch.get_child_blocks(init)
        sch.annotate(step, TILING_STRUCTURE, STRUCTURE)
        *rows, lanes = sch.get_loops(step)
        for loop in rows:
            sch.unroll(loop)
        sch.vectorize(lanes)

    def _pack_right(self) -> None:
        """Copy the right operand into panels as wide as a tile, each a row of units."""
        sch, block, tile = self._sch, self._block, self._tile
        number = self._found.right
        assert number is not None
        stmt = sch.get_sref(block).block
        source = stmt.reads[number].buffer
        axes = [axis.min for axis in stmt.reads[number].region]
        lane_axis = _axis(axes, stmt.iter_vars[self._found.vector].var)
        depth_axis = _axis(axes, stmt.iter_vars[self._fit.depth].var)
        batch = {stmt.iter_vars[n].var for n in self._found.batch}
        shared = [axis for axis, index in enumerate(axes) if index in batch]
        wide = self._wide

        def panels(*indices: PrimExpr) -> tuple[PrimExpr, ...]:
            lane, depth = indices[lane_axis], indices[depth_axis]
            outer = [
                floordiv(index, tile.depth) if axis == depth_axis else index
                for axis, index in enumerate(indices)
                if axis != lane_axis and axis not in shared
            ]
            unit = tile.right_indices(floormod(lane, tile.lanes), floormod(depth, tile.depth))
            within = floordiv(floormod(lane, wide), tile.lanes)
            return (
                *(indices[axis] for axis in shared),
                floordiv(lane, wide),
                *outer,
                within,
                *unit,
            )

        copy = sch.cache_read(block, number, "global", consumer_blocks=[block])
        sch.transform_layout(block, ("read", number), panels, assume_injective_transform=True)
        sch.transform_block_layout(copy, panels)
        sch.annotate(copy, TILING_STRUCTURE, STRUCTURE)
        copy = self._schedule_packing(copy, is_row_major=lane_axis == len(axes) - 1)
        self._mark_packing(copy, source)

    def _schedule_packing(self, copy: BlockRV, is_row_major: bool) -> BlockRV:
        """Run the copying on all cores, by shuffles of rows if need be; the block that copies."""
        sch, tile = self._sch, self._tile
        loops = sch.get_loops(copy)
        units = loops[len(loops) - len(tile.right.indices) :]
        outer = enough_tasks(sch, loops[: len(loops) - len(units) - 1])
        sch.parallel(sch.fuse(*outer) if len(outer) > 1 else outer[0])
        lanes, step = units[-2:]
        if is_row_major:
            dtype = sch.get_sref(copy).block.writes[0].buffer.dtype
            shuffle = _shuffle(extent_of(sch, lanes), extent_of(sch, step), dtype)
            if shuffle is not None:
                width, name = shuffle
                _, lanes = sch.split(lanes, [None, width])
                unit = sch.blockize(lanes)
                sch.tensorize(unit, name)
                return unit
        sch.unroll(lanes)
        sch.vectorize(step)
        return copy


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


def _shuffle(lanes: int, depth: int, dtype: DType) -> tuple[int, str] | None:
    """The widest instruction that interleaves rows of a unit, and its width."""
    for width in (lanes, *PACK_WIDTHS):
        name = f"pack_{depth}x{width}_{dtype}"
        if lanes % width == 0 and TensorIntrin.get(name, allow_missing=True) is not None:
            return width, name
    return None


def _axis(axes: Sequence[PrimExpr], var: Var) -> int:
    return next(axis for axis, index in enumerate(axes) if index is var)
