"""Base classes of rules for CPUs: they know the target, and build sketches on copies."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from tilewright.errors import ScheduleError
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.space.base import NotApplied, ScheduleRule, TaskContext
from tilewright.space.conditions import why_not_free
from tilewright.space.cpu.vector_shape import VectorShape

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
