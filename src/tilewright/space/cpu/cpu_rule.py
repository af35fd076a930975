"""Base classes of rules for CPUs: they know the vector registers, and build sketches on copies."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final

from tilewright.errors import ScheduleError
from tilewright.ir import Block
from tilewright.nest.block_nest import BlockNest
from tilewright.schedule import BlockRV, LoopRV, Schedule, StmtSRef
from tilewright.space.base import NotApplied, ScheduleRule, TaskContext
from tilewright.space.conditions import why_not_free
from tilewright.space.cpu.elementwise_loops import choose, extent_of
from tilewright.target import Target

_MANY_REGISTERS = frozenset({"avx512f", "neon", "sve"})  # architectures with 32 of them


@dataclass(frozen=True)
class VectorShape:
    """Bits of a register, and the number of registers."""

    bits: int
    registers: int

    @staticmethod
    def of(target: Target) -> VectorShape:
        """The registers of a target."""
        many = bool(_MANY_REGISTERS & target.features) or "aarch64" in target.cpu.triple
        return VectorShape(target.vector_bits, 32 if many else 16)

    @staticmethod
    def default() -> VectorShape:
        """What every x86-64 has."""
        return VectorShape(128, 16)

    def lanes(self, element_bits: int) -> int:
        """Elements in a register."""
        return max(1, self.bits // max(8, element_bits))  # a bool takes a byte

    def tile_rows(self, block: Block, width: int, lanes: int) -> int:
        """The most rows of a tile of results, `width` elements wide, that stays in registers.

        Beside it there is room for what a step loads of the operand that lies along its rows, and
        for one element of another.
        """
        nest = BlockNest(block)
        row = nest.writes[0]
        along = {row.last: width} if row.last is not None else {}
        streamed = max(each.vectors(along, lanes) for each in nest.operands.values())
        return max(1, (self.registers - streamed - 1) // row.vectors(along, lanes))


VECTORS = (1, 2, 4)  # side by side: enough to hide the latency of a comparison or a sum
NO_PLACE: Final = "the program around it leaves no place for such a schedule"


class CpuRule(ScheduleRule):
    """A rule that knows the vector registers, the cores and the extensions of the target."""

    def __init__(self) -> None:
        self._shape = VectorShape.default()
        self._cores = 1
        self._features: frozenset[str] = frozenset()

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        if context.target is not None:
            self._shape = VectorShape.of(context.target)
            self._cores = max(1, context.target.num_cores)
            self._features = frozenset(context.target.features)

    def _lanes_of(self, block: Block) -> int:
        """The lanes of a vector of the widest results of a block."""
        return self._shape.lanes(max(region.buffer.dtype.bits for region in block.writes))

    def _split_vectors(self, sch: Schedule, block: Block, loop: LoopRV) -> tuple[LoopRV, LoopRV]:
        """Cut vectors, as wide as the search says, from a loop over results."""
        lanes, extent = self._lanes_of(block), extent_of(sch, loop)
        widths = [n * lanes for n in VECTORS if n * lanes <= extent] or [lanes]
        outer, vector = sch.split(loop, [None, choose(sch, widths)])
        return outer, vector


class OneSketchRule(CpuRule):
    """A rule that makes one sketch of a block, or says why it leaves it alone."""

    competes: bool = False  # with the schedule as it was

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        if reason := why_not_free(sref) or self._refusal(sch, sref):
            return NotApplied(sch, reason)
        copy = sch.copy()
        try:
            self._schedule(copy, block)
        except ScheduleError:
            return NotApplied(sch, NO_PLACE)
        return [copy, sch] if self.competes else [copy]

    @abstractmethod
    def _refusal(self, sch: Schedule, block: StmtSRef) -> str:
        """Why the rule is not meant for a block; empty if it is."""

    @abstractmethod
    def _schedule(self, sch: Schedule, block: BlockRV) -> None:
        """Schedule a block; a `ScheduleError` leaves it as it was."""
