"""`HeronRule`: a condition on a stage and what is done to it; a registry by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from tilewright.heron.template import Template, TensorStage
from tilewright.support.plugins import Family


class HeronRule(ABC):
    """Looks at one stage; `name` is that of the paper's table where it has one."""

    name: ClassVar[str]
    is_last: bool = False  # no other rule looks at a stage after it

    @abstractmethod
    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        """Why it does not apply; None: it does."""

    @abstractmethod
    def apply(self, template: Template, stage: TensorStage) -> None:
        """Schedule the stage."""


heron_rules: Family[HeronRule] = Family("rule of Heron", "tilewright.heron_rule")


# --- conditions that several rules share --------------------------------------------------------


def has_data_reuse(template: Template, stage: TensorStage) -> bool:
    """True when some input has fewer dimensions than there are loops: its elements serve often."""
    if len(stage.reads) < 2:
        return False
    dims = [len(template.stages[name].spatial) for name in stage.reads]
    return min(dims) < len(stage.axes)


def is_root(template: Template, stage: TensorStage) -> bool:
    """True for a stage with loops of its own, not computed inside another."""
    return not stage.is_input and stage.name not in template.attached


def consumers(template: Template, stage: TensorStage) -> list[TensorStage]:
    """The stages that read it."""
    return [other for other in template.stages.values() if stage.name in other.reads]


def has_fusible_consumer(template: Template, stage: TensorStage) -> bool:
    """True when its only consumer reads nothing else, so that it can be computed inside it."""
    users = consumers(template, stage)
    return len(users) == 1 and users[0].reads == (stage.name,)
