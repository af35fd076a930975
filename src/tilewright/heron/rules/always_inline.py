"""Always-Inline: what is computed element by element is computed where it is used."""

from __future__ import annotations

from tilewright.heron import steps
from tilewright.heron.rules.base import HeronRule, consumers, heron_rules
from tilewright.heron.template import Template, TensorStage


@heron_rules.register("Always-Inline")
class AlwaysInline(HeronRule):
    """Applies to strictly inlinable stages: injective, not an input, read by another one."""

    name = "Always-Inline"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        if stage.is_input or not stage.is_injective:
            return "it is not computed element by element"
        return None if consumers(template, stage) else "it is the output"

    def apply(self, template: Template, stage: TensorStage) -> None:
        template.steps.append(steps.InlineStep(stage.name))
        for user in consumers(template, stage):
            kept = [name for name in user.reads if name != stage.name]
            user.reads = tuple(dict.fromkeys([*kept, *stage.reads]))
        template.order.remove(stage.name)
        del template.stages[stage.name]
