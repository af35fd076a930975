"""Building one register tile around a tensor instruction.

Extents are counted in units of the instruction; see `TileBuilder` for what happens to those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.ir import Buffer, IterType, PrimExpr, Var, floordiv, floormod
from tilewright.ir.annotation_keys import TILING_STRUCTURE, VECTOR_REDUCTION
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.schedule.state.scope import loops_of
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.cpu.elementwise_loops import enough_tasks, extent_of, own_pass
from tilewright.space.cpu.tile_builder import (
    STRUCTURE,
    NotTiled,
    Place,
    TileBuilder,
    Tiles,
    TileVariant,
)
from tilewright.space.cpu.vector_shape import VectorShape
from tilewright.space.tensor.tensor_fit import Fit, TensorGroup

PACK_WIDTHS = (16, 8)
PACKED_ROWS = 16  # of units
START_VECTORS = 4  # of sums side by side
ROW_LANES, SUMMED = (16, 8, 4), 4  # of instructions that sum up a row


@dataclass(frozen=True)
class Packing:
    """The copying of an operand into the order of an instruction."""

    copy: BlockRV
    source: Buffer
    is_row_major: bool  # rows of lanes, of which some are interleaved
    padding: BlockRV | None  # what adds zeros to the source on the way


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
        features: frozenset[str],
    ) -> None:
        super().__init__(sch, block, variant, shape, cores)
        self._fit = fit
        self._tile = fit.tile
        self._group = group
        self._features = features
        func = sch.mod[sch.state.function_of(sch.get_sref(block))]
        self._is_constant = fit.is_constant(func, sch.get_sref(block).block)
        self._start: BlockRV | None = None  # what results start from, if it is not zero
        self._flipping: BlockRV | None = None  # what gives the right operand the other sign
        self._padding: BlockRV | None = None  # what pads the right operand

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
        if self._padding is not None:  # becomes part of the packing
            padding = self._sch.get_sref(self._padding)
            stages = [stage for stage in stages if self._sch.get_sref(stage) is not padding]
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
                copy = sch.cache_read(block, number, "global")
                if number == self._fit.found.right and self._variant.packed:
                    self._padding = copy
        if any(axis.min in lacking for axis in stmt.writes[0].region):
            sch.cache_write(block, 0, "global")
        sch.pad_einsum(block, paddings)

    def _shift(self, number: int, stages: Sequence[BlockRV]) -> list[BlockRV]:
        """Give an operand the other sign; what only moved it becomes part of that."""
        sch = self._sch
        source = sch.get_sref(self._block).block.reads[number].buffer
        shifted, start = sch.shift_operand(self._block, number)
        self._start = start
        if number == self._fit.found.right:
            self._flipping = shifted  # becomes part of the packing
            return list(stages)
        kept = []
        for stage in stages:
            if sch.get_sref(stage).block.writes[0].buffer is source:
                sch.compute_inline(stage)
            else:
                kept.append(stage)
        return [*kept, shifted]

    def _place_operands(self, task: LoopRV) -> None:
        sums = None if self._start is None else self._sum_instruction()
        readers = [self._block]
        if self._start is not None and sums is not None:
            readers.append(self._start)
        packing = self._pack_units(readers) if self._variant.packed else None
        if self._start is not None and sums is not None:
            self._sum_packed(self._start, sums, task)
        elif self._start is not None and self._fit.shifted == self._fit.found.right:
            self._sum_rows(self._start)
        elif self._start is not None:
            self._sum_columns(self._start)
        if packing is not None:
            self._schedule_packing(packing, task)

    def _sum_instruction(self) -> str | None:
        """What sums up the right operand in the order of the instruction."""
        tile = self._tile
        name = f"sum_{tile.lanes}x{tile.depth}_{tile.right.dtype}"
        is_left = self._fit.shifted in self._fit.found.left
        known = TensorIntrin.get(name, allow_missing=True)
        return name if is_left and known is not None and known.features <= self._features else None

    def _sum_packed(self, start: BlockRV, name: str, task: LoopRV) -> None:
        """The sums that results start from, by an instruction on packed units."""
        sch, tile = self._sch, self._tile
        stmt = sch.get_sref(start).block
        depth_name = sch.get_sref(self._block).block.iter_vars[self._fit.depth].var.name
        spatial = sum(v.iter_type is IterType.DATA_PAR for v in stmt.iter_vars)
        step_axis = next(n for n, v in enumerate(stmt.iter_vars) if v.var.name == depth_name)
        loops = self._own_loops(start, task)
        columns, lanes = sch.split(loops[spatial - 1], [None, tile.lanes])
        outer_step, step = sch.split(loops[step_axis], [None, tile.depth])
        depth = [outer_step if n == step_axis else loops[n] for n in range(spatial, len(loops))]
        outer = [*loops[: spatial - 1], columns]
        sch.reorder(*outer, *depth, lanes, step)
        if self._variant.packing is Place.BEFORE:
            sch.parallel(sch.fuse(*outer) if len(outer) > 1 else outer[0])
        unit = sch.blockize(lanes)
        init = sch.decompose_reduction(unit, depth[0])
        sch.tensorize(unit, name)
        (zero,) = sch.get_child_blocks(init)
        for block in (unit, init, zero):
            sch.annotate(block, TILING_STRUCTURE, STRUCTURE)
        sch.vectorize(sch.get_loops(zero)[-1])

    def _own_loops(self, block: BlockRV, task: LoopRV) -> list[LoopRV]:
        """The loops of a block, all of them or what a task needs of them."""
        sch = self._sch
        if self._variant.packing is Place.BEFORE:
            return sch.get_loops(block)
        sch.compute_at(block, task, preserve_unit_loops=True)
        return sch.get_loops(block)[len(loops_of(sch.get_sref(task))) + 1 :]

    def _sum_rows(self, start: BlockRV) -> None:
        """The sums that results start from, of rows that lie in one piece."""
        sch = self._sch
        stmt = sch.get_sref(start).block
        rows = sum(v.iter_type is IterType.DATA_PAR for v in stmt.iter_vars)
        loops = sch.get_loops(start)
        if not rows:
            raise NotTiled
        sch.annotate(start, TILING_STRUCTURE, STRUCTURE)
        row = sch.fuse(*loops[:rows]) if rows > 1 else loops[0]
        sch.parallel(row)
        if len(loops) == rows + 1:
            name = self._row_instruction(stmt.reads[0].buffer, extent_of(sch, loops[-1]))
            if name is not None:
                self._sum_row(start, row, loops[-1], name)
                return
        sch.decompose_reduction(start, loops[rows])
        lanes = START_VECTORS * self._shape.lanes(stmt.writes[0].buffer.dtype.bits)
        if extent_of(sch, loops[-1]) >= lanes:
            sch.annotate(loops[rows], VECTOR_REDUCTION, lanes)

    def _row_instruction(self, source: Buffer, length: int) -> tuple[str, int] | None:
        """What sums up a row of so many bytes, and how many sums side by side it makes."""
        for lanes in ROW_LANES:
            name = f"sum_{lanes}x{SUMMED}_{source.dtype}_row"
            known = TensorIntrin.get(name, allow_missing=True)
            fits = known is not None and known.features <= self._features
            if fits and length % (lanes * SUMMED) == 0:
                return name, lanes
        return None

    def _sum_row(
        self, start: BlockRV, row: LoopRV, depth: LoopRV, instruction: tuple[str, int]
    ) -> None:
        """Sum up a row by an instruction that makes some sums side by side, and then those."""
        sch, (name, lanes) = self._sch, instruction
        _, lane, _ = sch.split(depth, [None, lanes, SUMMED])
        parts = sch.rfactor(lane, 1)
        sch.compute_at(parts, row)
        lane, outer, step = sch.get_loops(parts)[-3:]
        sch.reorder(outer, lane, step)
        unit = sch.blockize(lane)
        init = sch.decompose_reduction(unit, outer)
        sch.tensorize(unit, name)
        (zero,) = sch.get_child_blocks(init)
        for block in (unit, init, zero):
            sch.annotate(block, TILING_STRUCTURE, STRUCTURE)
        sch.vectorize(sch.get_loops(zero)[-1])
        sch.unroll(sch.get_loops(start)[-1])

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
        self._found = replace(self._found, extents=tuple(extents))
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

    def _pack_units(self, readers: Sequence[BlockRV]) -> Packing:
        """Let some blocks read the right operand from panels as wide as a tile, rows of units."""
        sch, block, tile = self._sch, self._block, self._tile
        number = self._found.right
        assert number is not None
        stmt = sch.get_sref(block).block
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

        copy = sch.cache_read(block, number, "global", consumer_blocks=readers)
        if self._flipping is not None:
            sch.compute_inline(self._flipping)
        padding = self._padding_while_packing()
        source = sch.get_sref(copy).block.reads[0].buffer
        sch.transform_layout(block, ("read", number), panels, assume_injective_transform=True)
        sch.transform_block_layout(copy, panels)
        sch.annotate(copy, TILING_STRUCTURE, STRUCTURE)
        # Zeros that were written into the copy are not moved by shuffles of rows.
        is_plain = self._padding is None or not self._is_constant
        return Packing(copy, source, lane_axis == len(axes) - 1 and is_plain, padding)

    def _padding_while_packing(self) -> BlockRV | None:
        """What pads the right operand, where that is to be scheduled together with its packing."""
        sch, padding = self._sch, self._padding
        if padding is None:
            return None
        if self._is_constant:  # which may be packed slowly
            sch.compute_inline(padding)
        elif len(sch.get_consumers(padding)) > 1:  # its columns are summed up, too
            own_pass(sch, padding)
        else:
            return padding
        return None

    def _schedule_packing(self, packing: Packing, task: LoopRV) -> None:
        """Copy on all cores or in each task, by shuffles of rows if need be."""
        sch, tile, copy = self._sch, self._tile, packing.copy
        loops = self._own_loops(copy, task)
        units = loops[len(loops) - len(tile.right.indices) :]
        if self._variant.packing is Place.BEFORE:
            outer = loops[: len(loops) - len(units) - 1]
            if packing.is_row_major:
                outer = self._rows_at_once(outer)
            outer = enough_tasks(sch, outer)
            sch.parallel(sch.fuse(*outer) if len(outer) > 1 else outer[0])
        if packing.is_row_major:
            copy = self._shuffled(packing, loops[-len(units) - 1], units)
        else:
            sch.unroll(units[-2])
            sch.vectorize(units[-1])
            if packing.padding is not None:
                self._pad_in_registers(packing.padding, units[-2])
        self._mark_packing(copy, packing.source)

    def _shuffled(self, packing: Packing, within: LoopRV, units: Sequence[LoopRV]) -> BlockRV:
        """The block that interleaves rows, by the widest instruction there is."""
        sch = self._sch
        lanes, step = units[-2:]
        suffix = f"{packing.source.dtype}" + ("" if self._flipping is None else "_shifted")
        shape = f"{extent_of(sch, step)}x{extent_of(sch, lanes)}"
        wide = f"pack_{shape}x{extent_of(sch, within)}_{suffix}"
        if len(units) == 2 and TensorIntrin.get(wide, allow_missing=True) is not None:
            unit, name = sch.blockize(within), wide
        else:
            shuffle = _shuffle(extent_of(sch, lanes), extent_of(sch, step), suffix)
            if shuffle is None:
                if packing.padding is not None:
                    own_pass(sch, packing.padding)
                sch.unroll(lanes)
                sch.vectorize(step)
                return packing.copy
            width, name = shuffle
            _, lanes = sch.split(lanes, [None, width])
            unit = sch.blockize(lanes)
        sch.tensorize(unit, name)
        if packing.padding is not None:
            self._pad_in_registers(packing.padding, sch.get_loops(unit)[-1])
        return unit

    def _pad_in_registers(self, padding: BlockRV, home: LoopRV) -> None:
        """Load what an iteration of `home` packs, with zeros where there is no data.

        The zeros are a step of their own: lowering cuts loops where a step ends, and where all is
        there, what is overwritten is not written.
        """
        sch = self._sch
        sch.compute_at(padding, home)
        sch.set_scope(padding, 0, "local")
        outside = len(loops_of(sch.get_sref(home))) + 1
        zeros = sch.decompose_padding(padding, sch.get_loops(padding)[outside])
        for block in (zeros, padding):
            sch.annotate(block, TILING_STRUCTURE, STRUCTURE)
            *rows, lanes = sch.get_loops(block)[outside:]
            for row in rows:
                sch.unroll(row)
            sch.vectorize(lanes)

    def _rows_at_once(self, loops: Sequence[LoopRV]) -> list[LoopRV]:
        """Cut the rows of an operand into blocks, each of which goes through all panels.

        A panel takes less than a cache line of a row, and rows lie far apart: what is left of the
        line is to be read while it is still there. Returns the loops outside of a block's rows.
        """
        sch = self._sch
        *around, rows = loops
        panel = around.pop(len(self._found.batch))
        count = extent_of(sch, rows)
        size = max(n for n in range(1, PACKED_ROWS + 1) if count % n == 0)
        block, row = sch.split(rows, [None, size])
        sch.reorder(*around, block, panel, row)
        return [*around, block, panel]


def _shuffle(lanes: int, depth: int, suffix: str) -> tuple[int, str] | None:
    """The widest instruction that interleaves rows of a unit, and its width."""
    for width in (lanes, *PACK_WIDTHS):
        name = f"pack_{depth}x{width}_{suffix}"
        if lanes % width == 0 and TensorIntrin.get(name, allow_missing=True) is not None:
            return width, name
    return None


def _axis(axes: Sequence[PrimExpr], var: Var) -> int:
    return next(axis for axis, index in enumerate(axes) if index is var)
