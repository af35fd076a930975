"""User-Defined-Rule: a condition and a transformation of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.heron.rules.base import HeronRule, heron_rules
from tilewright.heron.template import Stage, Template


@heron_rules.register("User-Defined-Rule")
@dataclass(frozen=True)
class UserDefinedRule(HeronRule):
    """Applies where the condition holds; the transformation uses the primitives of `Template`."""

    condition: Callable[[Template, Stage], bool]
    transform: Callable[[Template, Stage], None]

    name = "User-Defined-Rule"

    def why_not(self, template: Template, stage: Stage) -> str | None:
        return None if self.condition(template, stage) else "the user's condition does not hold"

    def apply(self, template: Template, stage: Stage) -> None:
        self.transform(template, stage)
