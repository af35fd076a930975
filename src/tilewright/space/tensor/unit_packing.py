"""Operands of a tensor instruction: padded to whole units, given the other sign, and packed.

The right one is copied into panels of units, in the order in which the instruction reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.ir import Buffer, PrimExpr, annotation_keys as keys, floordiv, floormod
from tilewright.ir.tensor_intrin import intrins_for
from tilewright.nest.block_nest import BlockNest
from tilewright.schedule import BlockRV, LoopRV
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.cpu.elementwise_loops import enough_tasks, extent_of, own_pass, write_out
from tilewright.space.cpu.tile_builder import STRUCTURE, ProducerPlace, TileSite
from tilewright.space.tensor.fit import TensorFit, pad_to_units
from tilewright.space.tensor.start_sums import StartSums

PACKED_ROWS = 16  # of units


@dataclass(frozen=True)
class Copied:
    """The copying of an operand into the order of an instruction."""

    block: BlockRV
    source: Buffer
    is_row_major: bool  # rows of lanes, of which some are interleaved
    padding: BlockRV | None  # what adds zeros to the source on the way


@dataclass(frozen=True)
class UnitPacking:
    """Copies the right operand, which may be padded and given the other sign on the way."""

    site: TileSite
    fit: TensorFit
    contraction: Contraction
    is_constant: bool
    flipping: BlockRV | None
    padding: BlockRV | None

    def copy(self, readers: Sequence[BlockRV]) -> Copied:
        """Let some blocks read the right operand from panels as wide as a tile, rows of units."""
        sch, block, tile = self.site.sch, self.site.block, self.fit.tile
        number = self.contraction.right
        assert number is not None
        stmt = self.site.stmt
        nest = BlockNest(stmt)
        right = nest.reads[number]
        lane_axis = right.axis_of(nest.iters[self.contraction.vector])
        depth_axis = right.axis_of(nest.iters[self.fit.depth])
        assert lane_axis is not None
        assert depth_axis is not None
        batch = {nest.iters[n] for n in self.contraction.batch}
        shared = [axis for axis, index in enumerate(right.indices) if index.variable in batch]
        wide = self.site.variant.columns * tile.lanes

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
        if self.flipping is not None:
            sch.compute_inline(self.flipping)
        padding = self._padding_while_packing()
        source = sch.get_sref(copy).block.reads[0].buffer
        sch.transform_layout(block, ("read", number), panels, assume_injective_transform=True)
        sch.transform_block_layout(copy, panels)
        sch.annotate(copy, keys.TILING_STRUCTURE, STRUCTURE)
        # Zeros that were written into the copy are not moved by shuffles of rows.
        is_plain = self.padding is None or not self.is_constant
        return Copied(copy, source, lane_axis == len(right.indices) - 1 and is_plain, padding)

    def _padding_while_packing(self) -> BlockRV | None:
        """What pads the right operand, where that is to be scheduled together with its copied."""
        sch, padding = self.site.sch, self.padding
        if padding is None:
            return None
        if self.is_constant:  # which may be packed slowly
            sch.compute_inline(padding)
        elif len(sch.get_consumers(padding)) > 1:  # its columns are summed up, too
            own_pass(sch, padding)
        else:
            return padding
        return None

    def schedule(self, copied: Copied, task: LoopRV | None) -> None:
        """Copy on all cores or in each task, by shuffles of rows if need be."""
        sch, tile, copy = self.site.sch, self.fit.tile, copied.block
        loops = self.site.own_loops(copy, task)
        units = loops[len(loops) - len(tile.right.indices) :]
        if self.site.variant.packing is ProducerPlace.BEFORE:
            outer = loops[: len(loops) - len(units) - 1]
            if copied.is_row_major:
                outer = self._rows_at_once(outer)
            outer = enough_tasks(sch, outer)
            sch.parallel(sch.fuse(*outer) if len(outer) > 1 else outer[0])
        if copied.is_row_major:
            copy = self._shuffled(copied, loops[-len(units) - 1], units)
        else:
            write_out(sch, [units[-2]], units[-1])
            if copied.padding is not None:
                self._pad_in_registers(copied.padding, units[-2])
        self.site.mark_packing(copy, copied.source)

    def _shuffled(self, copied: Copied, within: LoopRV, units: Sequence[LoopRV]) -> BlockRV:
        """The block that interleaves rows, by the widest instruction there is."""
        sch = self.site.sch
        lanes, step = units[-2:]
        count = extent_of(sch, within) if len(units) == 2 else 1
        shuffle = self._shuffle(copied, lanes, step, count) if count > 1 else None
        if shuffle is not None:
            lanes = within
        else:
            if (shuffle := self._shuffle(copied, lanes, step, 1)) is None:
                if copied.padding is not None:
                    own_pass(sch, copied.padding)
                write_out(sch, [lanes], step)
                return copied.block
            _, lanes = sch.split(lanes, [None, shuffle[0]])
        unit = sch.blockize(lanes)
        sch.tensorize(unit, shuffle[1])
        if copied.padding is not None:
            self._pad_in_registers(copied.padding, sch.get_loops(unit)[-1])
        return unit

    def _shuffle(
        self, copied: Copied, lanes: LoopRV, step: LoopRV, units: int
    ) -> tuple[int, str] | None:
        """The widest instruction that interleaves rows of units, and its width."""
        kind = "pack" if self.flipping is None else "shifted pack"
        extent, depth = extent_of(self.site.sch, lanes), extent_of(self.site.sch, step)
        fitting = [
            (computes.lanes, name)
            for name, computes in intrins_for(kind, str(copied.source.dtype))
            if (computes.depth, computes.rows) == (depth, units)
            and (extent == computes.lanes or (units == 1 and extent % computes.lanes == 0))
        ]
        return max(fitting, default=None)

    def _pad_in_registers(self, padding: BlockRV, loop: LoopRV) -> None:
        """Load what an iteration of `loop` packs, with zeros where there is no data.

        The zeros are a step of their own: lowering cuts loops where a step ends, and where all is
        there, what is overwritten is not written.
        """
        sch = self.site.sch
        sch.compute_at(padding, loop)
        sch.set_scope(padding, 0, "local")
        outside = len(sch.get_sref(loop).loops) + 1
        zeros = sch.decompose_padding(padding, sch.get_loops(padding)[outside])
        for block in (zeros, padding):
            sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
            *rows, lanes = sch.get_loops(block)[outside:]
            write_out(sch, rows, lanes)

    def _rows_at_once(self, loops: Sequence[LoopRV]) -> list[LoopRV]:
        """Cut the rows of an operand into blocks, each of which goes through all panels.

        A panel takes less than a cache line of a row, and rows lie far apart: what is left of the
        line is to be read while it is still there. Returns the loops outside of a block's rows.
        """
        sch = self.site.sch
        *around, rows = loops
        panel = around.pop(len(self.contraction.batch))
        count = extent_of(sch, rows)
        size = max(n for n in range(1, PACKED_ROWS + 1) if count % n == 0)
        block, row = sch.split(rows, [None, size])
        sch.reorder(*around, block, panel, row)
        return [*around, block, panel]


class UnitOperands:
    """Brings operands into units of the instruction that fits a block."""

    any_layout = True

    def __init__(self, site: TileSite, fit: TensorFit, features: frozenset[str]) -> None:
        self._site = site
        self._fit = fit
        self._features = features
        self._is_constant = fit.is_constant(site.func, site.stmt)
        self._start: BlockRV | None = None  # what results start from, if it is not zero
        self._flipping: BlockRV | None = None  # what gives the right operand the other sign
        self._padding: BlockRV | None = None  # what pads the right operand

    def prepare(self) -> None:
        """Let the block work on copies that have whole units."""
        if self._fit.paddings is None:
            return
        left, right = self._fit.contraction.left, self._fit.contraction.right
        assert right is not None
        roles = [*(("read", number) for number in left), ("read", right), ("write", 0)]
        copies = pad_to_units(self._site.sch, self._site.block, self._fit.paddings, roles)
        if self._site.variant.packed:
            self._padding = copies.get(("read", right))

    def adapt(self, stages: list[BlockRV]) -> list[BlockRV]:
        """Give an operand the other sign if need be."""
        if self._padding is not None:  # becomes part of the packing
            padding = self._site.sch.get_sref(self._padding)
            stages = [stage for stage in stages if self._site.sch.get_sref(stage) is not padding]
        if self._fit.shifted is not None:
            stages = self._shift(self._fit.shifted, stages)
        return stages

    def _shift(self, number: int, stages: list[BlockRV]) -> list[BlockRV]:
        """Give an operand the other sign; what only moved it becomes part of that."""
        sch = self._site.sch
        source = self._site.stmt.reads[number].buffer
        shifted, start = sch.shift_operand(self._site.block, number)
        self._start = start
        if number == self._fit.contraction.right:
            self._flipping = shifted  # becomes part of the packing
            return stages
        kept = []
        for stage in stages:
            if sch.get_sref(stage).block.writes[0].buffer is source:
                sch.compute_inline(stage)
            else:
                kept.append(stage)
        return [*kept, shifted]

    def place(self, contraction: Contraction, task: LoopRV | None) -> None:
        """Pack the right operand, and add up what results start from."""
        readers, sums, instruction = [self._site.block], None, None
        if self._start is not None:
            sums = StartSums(self._site, self._fit, self._start, self._features)
            instruction = sums.instruction()
            readers += [self._start] if instruction is not None else []
        packing = UnitPacking(
            self._site, self._fit, contraction, self._is_constant, self._flipping, self._padding
        )
        copied = packing.copy(readers) if self._site.variant.packed else None
        if sums is not None:
            sums.schedule(instruction, task)
        if copied is not None:
            packing.schedule(copied, task)
