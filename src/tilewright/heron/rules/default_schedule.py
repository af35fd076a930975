"""Default-Schedule: elementwise results after the product are a kernel of their own."""

from __future__ import annotations

from tilewright.algebra.constraints import Le
from tilewright.heron import steps
from tilewright.heron.rules.base import HeronRule, consumers, heron_rules
from tilewright.heron.template import Template, TensorStage, divisors

_MOST_THREADS = 1024


@heron_rules.register("Default-Schedule")
class DefaultSchedule(HeronRule):
    """Applies to elementwise outputs: all loops are fused and shared among threads."""

    name = "Default-Schedule"
    is_last = True

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        if not stage.is_injective or stage.is_input:
            return "it is not computed element by element"
        return "another stage reads it" if consumers(template, stage) else None

    def apply(self, template: Template, stage: TensorStage) -> None:
        name, whole = stage.name, 1
        template.heading(name, "## Default schedule")
        for axis in stage.axes:
            template.whole(name, axis)
            whole *= stage.extents[axis]
        fused = template.fuse(name, list(stage.axes)) if len(stage.axes) > 1 else stage.axes[0]
        sizes = tuple(size for size in divisors(whole) if size <= _MOST_THREADS)
        threads = template.knob(name, "threads", sizes, candidates=sizes)
        template.split(name, fused, threads, by_factor=True)
        for half, thread in (("outer", "blockIdx.x"), ("inner", "threadIdx.x")):
            axis = f"{fused}.{half}"
            template.mark(steps.BindStep(name, axis, thread), axis, thread)
        template.require(Le(f"max_threads_per_block = {_MOST_THREADS}", threads, _MOST_THREADS))
