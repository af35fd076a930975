"""Add-Cache-Stage: a result without a consumer to join is computed into a cache first."""

from __future__ import annotations

from tilewright.heron import steps
from tilewright.heron.rules.base import (
    HeronRule,
    has_data_reuse,
    has_fusible_consumer,
    heron_rules,
)
from tilewright.heron.template import Template, TensorStage


def cache_write(
    template: Template, stage: TensorStage, scope: str, reads: tuple[str, ...]
) -> TensorStage:
    """Move the computation of a stage to a new one in another memory; it becomes the copy."""
    new = TensorStage(
        f"{stage.name}.{scope}",
        tuple(f"{axis}.c" for axis in stage.spatial),
        stage.reduced,
        reads,
        {f"{axis}.c" if axis in stage.spatial else axis: n for axis, n in stage.extents.items()},
        follows={f"{axis}.c": axis for axis in stage.spatial},
        scope=scope,
        lanes=tuple(f"{axis}.c" if axis in stage.spatial else axis for axis in stage.lanes),
    )
    template.steps.append(steps.CacheWriteStep(stage.name, new.name, scope))
    template.steps.append(steps.TakeLoops(stage.name, stage.spatial))
    stage.reads, stage.reduced = (new.name,), ()
    template.stages[new.name] = new
    template.order.insert(template.order.index(stage.name) + 1, new.name)
    template.begin(stage.name)
    template.begin(new.name)
    return new


@heron_rules.register("Add-Cache-Stage")
class AddCacheStage(HeronRule):
    """Applies to stages with data reuse and no consumer that they can be fused into."""

    name = "Add-Cache-Stage"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        if not has_data_reuse(template, stage):
            return "no element of its inputs is used twice"
        if has_fusible_consumer(template, stage):
            return "its consumer can take it in"
        return None

    def apply(self, template: Template, stage: TensorStage) -> None:
        template.heading(stage.name, "## Cache write global")
        new = cache_write(template, stage, "global", stage.reads)
        # The number of positions is known when the consumer has its loops.
        position = template.knob(stage.name, "global_pos", range(4))
        template.attached[new.name] = (stage.name, position)
