"""`DefaultSpace`: our own rules where they cover a program, MetaSchedule's where they do not.

Our rules (kind "kernels") write kernels as an expert would, with few decisions, each of them good.
They do not know every program. One that they leave a block of untouched is given to the rules that
MetaSchedule has for the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir import IRModule
from tilewright.schedule import Schedule
from tilewright.space.annotations import TILING_STRUCTURE
from tilewright.space.base import Mutator, Postproc, ScheduleRule, SpaceGenerator, space_generators
from tilewright.space.generators.post_order_apply import PostOrderApply

KERNELS = "kernels"


@space_generators.register("tilewright")
class DefaultSpace(SpaceGenerator):
    """The generator that tuning uses unless told otherwise."""

    def __init__(self) -> None:
        self.kernels = PostOrderApply(sch_rules=KERNELS, postprocs=KERNELS, mutator_probs=KERNELS)
        self.general = PostOrderApply()
        self._chosen: PostOrderApply = self.general
        self._is_cpu = False

    def _initialize_with_tune_context(self, context: Any) -> None:
        self._is_cpu = context.target is not None and context.target.is_cpu
        self.kernels._initialize_with_tune_context(context)
        self.general._initialize_with_tune_context(context)

    # The members of whichever space was chosen last.

    @property
    def sch_rules(self) -> Sequence[ScheduleRule]:  # type: ignore[override]
        return self._chosen.sch_rules

    @property
    def postprocs(self) -> Sequence[Postproc]:  # type: ignore[override]
        return self._chosen.postprocs

    @property
    def mutator_probs(self) -> Mapping[Mutator, float]:  # type: ignore[override]
        return self._chosen.mutator_probs

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        if self._is_cpu:
            self._chosen = self.kernels
            sketches = self.kernels.generate_design_space(mod)
            complete = [sketch for sketch in sketches if _is_complete(sketch)]
            if complete:
                return complete
        self._chosen = self.general
        return self.general.generate_design_space(mod)


def _is_complete(sketch: Schedule) -> bool:
    """True when a rule has taken care of every block."""
    return all(
        TILING_STRUCTURE in sref.block.annotations
        for sref in sketch.state.srefs.values()
        if sref.is_block and sref.parent is not None
    )
