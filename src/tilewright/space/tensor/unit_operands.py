"""Operands of a tensor instruction: padded to whole units, given the other sign, and packed."""

from __future__ import annotations

from tilewright.schedule import BlockRV, LoopRV
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.cpu.tile_builder import TileSite
from tilewright.space.tensor.fit import TensorFit
from tilewright.space.tensor.operands import pad_to_units
from tilewright.space.tensor.start_sums import StartSums
from tilewright.space.tensor.unit_packing import UnitPacking


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
        left, right = self._fit.found.left, self._fit.found.right
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
        if number == self._fit.found.right:
            self._flipping = shifted  # becomes part of the packing
            return stages
        kept = []
        for stage in stages:
            if sch.get_sref(stage).block.writes[0].buffer is source:
                sch.compute_inline(stage)
            else:
                kept.append(stage)
        return [*kept, shifted]

    def place(self, contraction: Contraction, task: LoopRV) -> None:
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
