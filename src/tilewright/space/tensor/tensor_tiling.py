"""`TensorTiling`: register tiles whose innermost step is a tensor instruction.

As `RegisterTiling`, with units of work where that has elements: the loops of the instruction are
cut off first, and what is left is tiled in the same way. The accumulators are in the scope that
the instruction wants them in, the right operand is copied into the order it reads. Operands that
only differ in their sign from what it takes are shifted, extents that do not divide are padded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tilewright.errors import ScheduleError
from tilewright.ir import Block, PrimFunc, annotation_keys as keys
from tilewright.ir.tensor_intrin import features_of_intrin
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.space.base import NotApplied, schedule_rules
from tilewright.space.conditions import NO_REDUCTION, all_iters_spatial, why_not_free
from tilewright.space.cpu import tile_builder
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.cpu.cpu_rule import CpuRule
from tilewright.space.cpu.elementwise_loops import write_out
from tilewright.space.cpu.register_tiling import VectorRegisters, store_vectors
from tilewright.space.tensor.fit import TensorFit
from tilewright.space.tensor.instruction import TensorGroup
from tilewright.space.tensor.unit_packing import UnitOperands

MAX_VECTORS = 4
UNFIT: Final = "no tensor instruction of the target computes what it does"
MUCH_MORE = 256  # products: tiles of 32 x 32 against vectors, of which a quarter is used


@schedule_rules.register("TensorTiling")
class TensorTiling(CpuRule):
    """Tiles contractions around the instructions that fit best; plain tiles compete on request.

    An instruction is given by its name, or as the names of a group (`compute`, `fill`, `store`).
    """

    def __init__(self, intrin_names: Sequence[str | Mapping[str, str]]) -> None:
        super().__init__()
        self.intrin_names = tuple(intrin_names)
        self.plain_competes = True
        self._groups = [TensorGroup.of(given) for given in intrin_names]

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        contraction = Contraction.of(sref.block, any_layout=True)
        if reason := why_not_free(sref) or _why_not_product(sref.block, contraction):
            return NotApplied(sch, reason)
        assert contraction is not None
        func = sch.mod[sch.state.function_of(sref)]
        taken: list[TensorFit] = []
        made: list[Schedule] = []
        for group, fit in self._fits(func, sref.block, contraction):
            if all(_competes(fit, other, func, sref.block) for other in taken):
                sketches = self._sketches(sch, block, fit, group)
                if sketches:
                    taken.append(fit)
                    made += sketches
        if not made:
            return NotApplied(sch, UNFIT)
        return [*made, sch] if self.plain_competes else made

    def _fits(
        self, func: PrimFunc, block: Block, contraction: Contraction
    ) -> list[tuple[TensorGroup, TensorFit]]:
        """The instructions that fit a block; first those that take its operands as they are.

        Before them come those that do much more at once for a little padding.
        """
        fits = []
        for group in self._groups:
            tile = group.tile
            if tile is None or not features_of_intrin(group.compute) <= self._features:
                continue
            fit = TensorFit.of(block, contraction, tile)
            # Only sums that start from zero can be set by a fill instruction.
            if fit is not None and (fit.shifted is None or group.fill is None):
                fits.append((group, fit))
        fits.sort(key=lambda pair: pair[1].effort(func, block))
        enough = MUCH_MORE * fits[0][1].work if fits else 0
        return sorted(fits, key=lambda pair: pair[1].work < enough)

    def _sketches(
        self, sch: Schedule, block: BlockRV, fit: TensorFit, group: TensorGroup
    ) -> list[Schedule]:
        sketches = []
        for variant in self._variants(sch, block, fit, group):
            copy = sch.copy()
            try:
                site = tile_builder.TileSite(copy, block, variant, self._shape, self._cores)
                tensor_tile(site, fit, group, self._features).run()
            except (tile_builder.NotTiled, ScheduleError):
                continue  # this way does not fit the program around the block
            sketches.append(copy)
        return sketches

    def _variants(
        self, sch: Schedule, block: BlockRV, fit: TensorFit, group: TensorGroup
    ) -> list[tile_builder.TileVariant]:
        units = -(-fit.contraction.extents[fit.contraction.vector] // fit.tile.lanes)
        most = MAX_VECTORS if group.store is None else 1
        widths = [count for count in range(1, most + 1) if units % count == 0]
        wide = [count for count in widths if count > 1] or widths
        has_producers = bool(neighbours(sch, sch.get_sref(block), before=True))
        places = [tile_builder.ProducerPlace.BEFORE]
        if fit.contraction.rows and (has_producers or fit.shifted in fit.contraction.left):
            places.append(tile_builder.ProducerPlace.BESIDE)
        variants = [
            tile_builder.TileVariant(count, packed=not fit.is_packed, place=place)
            for count in wide
            for place in places
        ]
        func = sch.mod[sch.state.function_of(sch.get_sref(block))]
        if not fit.is_packed and not fit.is_constant(func, sch.get_sref(block).block):
            before = [
                variant
                for variant in variants
                if variant.place is tile_builder.ProducerPlace.BEFORE
            ]
            variants += [
                replace(variant, packing=tile_builder.ProducerPlace.BESIDE) for variant in before
            ]
        return variants


def _why_not_product(block: Block, contraction: Contraction | None) -> str:
    """Why a block is no product of two operands."""
    if all_iters_spatial(block):
        return NO_REDUCTION
    if contraction is None:
        return "it is not a contraction"
    return UNFIT if contraction.right is None or len(contraction.left) != 1 else ""


def _competes(fit: TensorFit, taken: TensorFit, func: PrimFunc, block: Block) -> bool:
    """Whether it is worth trying both of two ways: where either operand may be shifted."""
    is_other_operand = fit.shifted is not None and fit.shifted != taken.shifted
    return is_other_operand and fit.effort(func, block) == taken.effort(func, block)


def tensor_tile(
    site: tile_builder.TileSite, fit: TensorFit, group: TensorGroup, features: frozenset[str]
) -> tile_builder.TileBuilder:
    """A tile whose innermost step is an instruction; extents are counted in its units."""
    registers: tile_builder.Registers
    if group.store is None:
        columns = site.variant.columns
        wide = columns * fit.tile.lanes
        registers = VectorRegisters(site, wide, columns, _compute(fit.tile.intrin))
    else:
        registers = OwnRegisters(site, fit, group)
    return tile_builder.TileBuilder(
        site, UnitOperands(site, fit, features), registers, tile_builder.Units(fit.units, fit.order)
    )


def _compute(intrin: str) -> Callable[[tile_builder.TileSite, tile_builder.Tiles], None]:
    """Let an instruction carry out a unit; the initialisation is a step of its own."""

    def compute(site: tile_builder.TileSite, tiles: tile_builder.Tiles) -> None:
        sch = site.sch
        sch.unroll(tiles.lanes)
        unit = sch.blockize(tiles.units[0])
        sch.annotate(unit, keys.TILING_STRUCTURE, tile_builder.STRUCTURE)
        init = sch.decompose_reduction(unit, tiles.depth[0])
        sch.tensorize(unit, intrin)
        (step,) = sch.get_child_blocks(init)
        sch.annotate(step, keys.TILING_STRUCTURE, tile_builder.STRUCTURE)
        *rows, lanes = sch.get_loops(step)
        write_out(sch, rows, lanes)

    return compute


@dataclass
class OwnRegisters:
    """Registers that hold the results of one unit; instructions set them to zero and store them."""

    site: tile_builder.TileSite
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
        copy = sch.cache_write(block, 0, self.fit.tile.out.buffer.scope)
        for stage in (copy, *self.consumers):
            sch.reverse_compute_at(stage, tile_loop, preserve_unit_loops=True)
            sch.annotate(stage, keys.TILING_STRUCTURE, tile_builder.STRUCTURE)
        return copy

    def store(self, consumer: BlockRV, tile_loop: LoopRV) -> None:
        sch = self.site.sch
        for other in self.consumers:
            store_vectors(sch, other, tile_loop, self.wide)
        assert self.group.store is not None
        sch.tensorize(sch.get_loops(consumer)[-2], self.group.store)

    def finish(self, tiles: tile_builder.Tiles) -> None:
        sch = self.site.sch
        unit = sch.blockize(tiles.units[0])
        init = sch.decompose_reduction(unit, tiles.depth[0])
        sch.tensorize(unit, self.group.compute)
        assert self.group.fill is not None
        sch.tensorize(init, self.group.fill)
