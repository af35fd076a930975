"""Base classes of rules for CPUs: they know the target, and say why they leave a block alone."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.space.base import ScheduleRule
from tilewright.space.conditions import is_root, is_tiled
from tilewright.space.cpu.vector_shape import VectorShape


class CpuRule(ScheduleRule):
    """A rule that knows the vector registers and the cores of the target."""

    def __init__(self) -> None:
        self._shape = VectorShape.default()
        self._cores = 1

    def _initialize_with_tune_context(self, context: Any) -> None:
        if context.target is not None:
            self._shape = VectorShape.of(context.target)
            self._cores = max(1, context.target.num_cores)


class OneSketchRule(CpuRule):
    """A rule that makes one sketch of a block, or says why it leaves it alone."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if self.why_not(sch, block):
            return [sch]
        copy = sch.copy()
        try:
            self._schedule(copy, block)
        except ScheduleError:
            return [sch]
        return [copy]

    def why_not(self, sch: Schedule, block: BlockRV) -> str:
        """Why a block is left alone; empty if it is not."""
        sref = sch.get_sref(block)
        if is_root(sref):
            return "it is the root block"
        if is_tiled(sref):
            return "another rule has taken care of it already"
        return self._refusal(sch, sref)

    @abstractmethod
    def _refusal(self, sch: Schedule, block: StmtSRef) -> str:
        """Why the rule is not meant for a block; empty if it is."""

    @abstractmethod
    def _schedule(self, sch: Schedule, block: BlockRV) -> None:
        """Schedule a block; a `ScheduleError` leaves it as it was."""
