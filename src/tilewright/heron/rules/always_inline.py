"""Always-Inline: what is computed element by element is computed where it is used."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.heron import steps
from tilewright.heron.rules.base import HeronRule, consumers, heron_rules
from tilewright.heron.template import Template, TensorStage


@heron_rules.register("Always-Inline")
@dataclass(frozen=True)
class AlwaysInline(HeronRule):
    """Applies to strictly inlinable stages: injective, without a branch, read by another one.

    `is_strict`: else branches are inlined, too, which is right where a copy takes them in.
    """

    is_strict: bool = True

    name = "Always-Inline"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        if stage.is_input or not stage.is_injective:
            return "it is not computed element by element"
        if stage.has_branch and self.is_strict:
            return "it has a branch"
        return None if consumers(template, stage) else "it is the output"

    def apply(self, template: Template, stage: TensorStage) -> None:
        template.steps.append(steps.InlineStep(stage.name))
        for user in consumers(template, stage):
            kept = [name for name in user.reads if name != stage.name]
            user.reads = tuple(dict.fromkeys([*kept, *stage.reads]))
        template.order.remove(stage.name)
        del template.stages[stage.name]
