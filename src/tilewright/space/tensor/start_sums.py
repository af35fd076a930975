"""Sums that results of shifted operands start from; see `shift_operand`."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir import Buffer, IterType, annotation_keys as keys
from tilewright.ir.tensor_intrin import Computes, intrins_for
from tilewright.schedule import BlockRV, LoopRV
from tilewright.space.cpu.elementwise_loops import extent_of
from tilewright.space.cpu.tile_builder import STRUCTURE, NotTiled, ProducerPlace, TileSite
from tilewright.space.tensor.fit import TensorFit

START_VECTORS = 4  # of sums side by side


@dataclass(frozen=True)
class StartSums:
    """The block that adds up an operand: of packed units, of rows, or of columns."""

    site: TileSite
    fit: TensorFit
    start: BlockRV
    features: frozenset[str]  # of the target

    def schedule(self, instruction: str | None, task: LoopRV | None) -> None:
        """Add up by an instruction on packed units, or along the operand as it is."""
        if instruction is not None:
            self.by_instruction(instruction, task)
        elif self.fit.shifted == self.fit.contraction.right:
            self.of_rows()
        else:
            self.of_columns()

    def instruction(self) -> str | None:
        """The instruction that adds up the right operand in the order of the other one."""
        tile = self.fit.tile
        if self.fit.shifted in self.fit.contraction.left:
            for name, computes in intrins_for("sum", str(tile.right.buffer.dtype), self.features):
                if (computes.lanes, computes.depth) == (tile.lanes, tile.depth):
                    return name
        return None

    def _row_instruction(self, source: Buffer, length: int) -> tuple[str, Computes] | None:
        """The widest instruction that adds up a row of `length` bytes."""
        for name, computes in intrins_for("row sum", str(source.dtype), self.features):
            if length % (computes.lanes * computes.depth) == 0:
                return name, computes
        return None

    def _tensorize(self, unit: BlockRV, depth: LoopRV, name: str) -> None:
        """Let an instruction carry out a unit, and a vector its initialisation."""
        sch = self.site.sch
        init = sch.decompose_reduction(unit, depth)
        sch.tensorize(unit, name)
        (zero,) = sch.get_child_blocks(init)
        for block in (unit, init, zero):
            sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
        sch.vectorize(sch.get_loops(zero)[-1])

    def by_instruction(self, name: str, task: LoopRV | None) -> None:
        """The sums that results start from, by an instruction on packed units."""
        site, start, tile = self.site, self.start, self.fit.tile
        sch = site.sch
        stmt = sch.get_sref(start).block
        depth_name = site.stmt.iter_vars[self.fit.depth].var.name
        spatial = sum(v.iter_type is IterType.DATA_PAR for v in stmt.iter_vars)
        step_axis = next(n for n, v in enumerate(stmt.iter_vars) if v.var.name == depth_name)
        loops = site.own_loops(start, task)
        columns, lanes = sch.split(loops[spatial - 1], [None, tile.lanes])
        outer_step, step = sch.split(loops[step_axis], [None, tile.depth])
        depth = [outer_step if n == step_axis else loops[n] for n in range(spatial, len(loops))]
        outer = [*loops[: spatial - 1], columns]
        sch.reorder(*outer, *depth, lanes, step)
        if site.variant.packing is ProducerPlace.BEFORE:
            sch.parallel(sch.fuse(*outer) if len(outer) > 1 else outer[0])
        unit = sch.blockize(lanes)
        self._tensorize(unit, depth[0], name)

    def of_rows(self) -> None:
        """The sums that results start from, of rows that lie in one piece."""
        sch, start = self.site.sch, self.start
        stmt = sch.get_sref(start).block
        rows = sum(v.iter_type is IterType.DATA_PAR for v in stmt.iter_vars)
        loops = sch.get_loops(start)
        if not rows:
            raise NotTiled
        sch.annotate(start, keys.TILING_STRUCTURE, STRUCTURE)
        row = sch.fuse(*loops[:rows]) if rows > 1 else loops[0]
        sch.parallel(row)
        if len(loops) == rows + 1:
            name = self._row_instruction(stmt.reads[0].buffer, extent_of(sch, loops[-1]))
            if name is not None:
                self._sum_row(row, loops[-1], name)
                return
        sch.decompose_reduction(start, loops[rows])
        lanes = START_VECTORS * self.site.shape.lanes(stmt.writes[0].buffer.dtype.bits)
        if extent_of(sch, loops[-1]) >= lanes:
            sch.annotate(loops[rows], keys.VECTOR_REDUCTION, lanes)

    def _sum_row(self, row: LoopRV, depth: LoopRV, instruction: tuple[str, Computes]) -> None:
        """Sum up a row by an instruction that makes some sums side by side, and then those."""
        sch, (name, computes) = self.site.sch, instruction
        _, lane, _ = sch.split(depth, [None, computes.lanes, computes.depth])
        parts = sch.rfactor(lane, 1)
        sch.compute_at(parts, row)
        lane, outer, step = sch.get_loops(parts)[-3:]
        sch.reorder(outer, lane, step)
        unit = sch.blockize(lane)
        self._tensorize(unit, outer, name)
        sch.unroll(sch.get_loops(self.start)[-1])

    def of_columns(self) -> None:
        """The sums that results start from, many columns at a time."""
        sch, start = self.site.sch, self.start
        loops = sch.get_loops(start)
        stmt = sch.get_sref(start).block
        spatial = [v for v in stmt.iter_vars if v.iter_type is IterType.DATA_PAR]
        if not spatial:
            raise NotTiled
        *outer, columns = loops[: len(spatial)]
        lanes = START_VECTORS * self.site.shape.lanes(stmt.writes[0].buffer.dtype.bits)
        column, lane = sch.split(columns, [None, lanes])
        depth = loops[len(spatial) :]
        sch.reorder(*outer, column, *depth, lane)
        sch.annotate(start, keys.TILING_STRUCTURE, STRUCTURE)
        sch.parallel(sch.fuse(*outer, column) if outer else column)
        sch.vectorize(lane)
        sch.decompose_reduction(start, depth[0])
