"""`VerifyScratchpads`: reject candidates that a VTA cannot run."""

from __future__ import annotations

from tilewright.schedule import Schedule
from tilewright.space.base import Postproc, TaskContext, postprocs
from tilewright.space.vta.tile_use import tile_use
from tilewright.vta.configuration import Configuration


@postprocs.register("VerifyScratchpads")
class VerifyScratchpads(Postproc):
    """Accept programs whose tiles fit the scratchpads, and whose sums keep their distance."""

    def __init__(self) -> None:
        self._configuration = Configuration()

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        if context.target is not None:
            self._configuration = Configuration.of(context.target.attrs)

    def apply(self, sch: Schedule) -> bool:
        uses = (tile_use(func) for func in sch.mod.functions.values())
        return all(use is None or not use.why_illegal(self._configuration) for use in uses)
