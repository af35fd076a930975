"""Multi-level-Tiling: three levels of tiles, spatial loops and reductions in turn."""

from __future__ import annotations

from tilewright.heron.rules.base import HeronRule, has_data_reuse, heron_rules
from tilewright.heron.template import Template, TensorStage

LEVELS = 3


@heron_rules.register("Multi-level-Tiling")
class HeronTiling(HeronRule):
    """Applies to stages with data reuse: S R S R S R and what is left."""

    name = "Multi-level-Tiling"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if has_data_reuse(template, stage) else "no element of its inputs is used twice"

    def apply(self, template: Template, stage: TensorStage) -> None:
        template.heading(stage.name, "## general tile \n")
        tensorized = template.facts.get(f"tensorized {stage.name}", ())
        assert isinstance(tensorized, tuple)
        axes = [axis for axis in stage.loops if axis not in tensorized]
        for _ in range(LEVELS):
            template.heading(stage.name, "## tile ")
            outers = template.tile(stage.name, axes, template.tile_knob(stage.name, "tileAll"))
            spatial = [axis for axis in outers if template.root(stage.name, axis) in stage.spatial]
            stage.positions += (
                [spatial[-1], outers[-1]] if outers[-1] not in spatial else [spatial[-1]]
            )
            axes = [f"{axis}.inner" for axis in axes]
