"""Add Multi-Scope SPM: each operand has a scratchpad of its own, and so has the result."""

from __future__ import annotations

from tilewright.heron import steps
from tilewright.heron.rules.add_cache_stage import cache_write
from tilewright.heron.rules.base import HeronRule, has_data_reuse, heron_rules
from tilewright.heron.template import Template, TensorStage
from tilewright.vta.names import ACC, INP, WGT


@heron_rules.register("Add Multi-Scope SPM")
class AddMultiScopeSpm(HeronRule):
    """Applies to stages with data reuse, on machines with a scratchpad for each kind of operand."""

    name = "Add Multi-Scope SPM"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if has_data_reuse(template, stage) else "no element of its inputs is used twice"

    def apply(self, template: Template, stage: TensorStage) -> None:
        template.heading(stage.name, "## Cache in scratchpads")
        inputs = stage.reads
        computed = cache_write(template, stage, ACC, inputs)
        template.attached[computed.name] = (stage.name, template.knob(stage.name, "acc_pos", (1,)))
        position = template.knob(computed.name, "load_pos", (0,))
        for index, (source, scope) in enumerate(zip(inputs, (INP, WGT), strict=True)):
            _add_operand_stage(template, computed, index, source, scope)
            template.attached[f"{source}.{scope}"] = (computed.name, position)
        template.facts["accumulator"] = computed.name


def _add_operand_stage(
    template: Template, computed: TensorStage, index: int, source: str, scope: str
) -> None:
    """An operand in its scratchpad."""
    original = template.stages[source]
    name = f"{source}.{scope}"
    follows = {
        axis: own if own in computed.reduced else f"{own}.c"
        for axis, own in original.follows.items()
    }
    template.steps.append(steps.CacheReadStep(computed.name, index, source, name, scope))
    template.stages[name] = TensorStage(
        name,
        original.spatial,
        (),
        (source,),
        dict(original.extents),
        follows,
        scope=scope,
        windows=original.windows,
    )
    template.order.insert(template.order.index(source), name)
    template.begin(name)
    computed.reads = tuple(name if read == source else read for read in computed.reads)
