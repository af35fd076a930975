"""Merge-Consumer: a padded input is made where cores compute with it, channels as lanes."""

from __future__ import annotations

import math

from tilewright.algebra.constraints import MinOf
from tilewright.heron import steps
from tilewright.heron.names import Key
from tilewright.heron.rules.base import HeronRule, consumers, heron_rules
from tilewright.heron.template import Template, TensorStage

_MOST_LANES = 64  # bytes of a vector; a byte an element or more
_PARALLEL = 1  # the position of the loop over cores


@heron_rules.register("Merge-Consumer")
class MergeConsumer(HeronRule):
    """Applies to stages with a branch, which cannot be inlined into an instruction."""

    name = "Merge-Consumer"
    is_last = True

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        if not stage.has_branch:
            return "it has no branch"
        return None if consumers(template, stage) else "it is the output"

    def apply(self, template: Template, stage: TensorStage) -> None:
        """Its consumer may be computed outside the loop over cores; then it is, too."""
        template.heading(stage.name, "## Merge into consumer")
        (user,) = consumers(template, stage)
        root, position = template.attached[user.name]
        own = template.declare(Key("V", stage.name, None, "merge_pos"), range(_PARALLEL + 1))
        origin = f"{stage.name} is computed before {user.name}, which reads it"
        template.require(MinOf(origin, own, (position, _PARALLEL)))
        places = tuple(template.stages[root].positions)
        template.steps.append(steps.ComputeAtStep(stage.name, root, own, places, stage.axes))
        row = stage.axes[-1]
        lanes = math.gcd(stage.extents[row], _MOST_LANES)
        template.split(stage.name, row, lanes, by_factor=True)
        inner = f"{row}.inner"
        template.mark(steps.VectorizeStep(stage.name, inner), inner, "vectorize")
