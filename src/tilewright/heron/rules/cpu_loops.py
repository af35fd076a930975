"""Rules of DL Boost for the loops around the computation: unrolling, cores, caches, lanes."""

from __future__ import annotations

from tilewright.heron import steps
from tilewright.heron.rules.base import HeronRule, has_data_reuse, heron_rules, is_root
from tilewright.heron.template import Template, TensorStage

_UNROLL_STEPS = tuple(range(6))
_NOT_ROOT = "it is computed inside another stage"


@heron_rules.register("Unroll-Pragma")
class UnrollRoot(HeronRule):
    """A loop of one iteration around a root stage carries how far the rest is unrolled.

    `is_outermost`: else another rule puts that number elsewhere.
    """

    name = "Unroll-Pragma"

    def __init__(self, is_outermost: bool = True) -> None:
        self.is_outermost = is_outermost

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if is_root(template, stage) else _NOT_ROOT

    def apply(self, template: Template, stage: TensorStage) -> None:
        template.heading(stage.name, "## Unroll pragma ")
        knob = template.knob(stage.name, "unroll_pragma", range(6), candidates=_UNROLL_STEPS)
        outers = template.tile(stage.name, list(stage.spatial), lambda axis: 1, "unroll")
        stage.tags.update(dict.fromkeys(outers, "unroll"))
        if self.is_outermost:
            template.steps.append(steps.UnrollPragma(stage.name, outers[0], knob))
        stage.positions.append(outers[-1])


@heron_rules.register("Parallel")
class ParallelRoot(HeronRule):
    """The outer tiles of a root stage are fused and shared among cores."""

    name = "Parallel"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if is_root(template, stage) else _NOT_ROOT

    def apply(self, template: Template, stage: TensorStage) -> None:
        template.heading(stage.name, "## Parallel \n\n## tile spatial ")
        knob = template.tile_knob(stage.name, "tileSpatial")
        outers = template.tile(stage.name, stage.innermost, knob)
        fused = template.fuse(stage.name, outers)
        template.steps.append(steps.ParallelStep(stage.name, fused))
        stage.positions.append(fused)


@heron_rules.register("Tile-For-Cache")
class TileForCache(HeronRule):
    """The copy out of a cache stage is tiled once more, for the cache stage to be inside."""

    name = "Tile-For-Cache"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        users = [consumer for consumer, _ in template.attached.values()]
        return None if stage.name in users else "no cache stage belongs to it"

    def apply(self, template: Template, stage: TensorStage) -> None:
        template.heading(stage.name, "## Tile for cache \n\n## tile spatial ")
        knob = template.tile_knob(stage.name, "tileSpatial")
        outers = template.tile(stage.name, stage.innermost, knob)
        stage.positions.append(outers[-1])


@heron_rules.register("Vectorize")
class VectorizeInnermost(HeronRule):
    """The innermost loop of a stage without a reduction may become lanes."""

    name = "Vectorize"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        if stage.is_input or stage.reduced:
            return "it is no copy or elementwise computation"
        return "it has data reuse" if has_data_reuse(template, stage) else None

    def apply(self, template: Template, stage: TensorStage) -> None:
        switch = template.knob(stage.name, "vectorize", range(2))
        axis = stage.loops[-1]
        template.steps.append(steps.VectorizeStep(stage.name, axis, switch))
        stage.positions.append(axis)


@heron_rules.register("Start-Sums")
class DecomposeSums(HeronRule):
    """Sums start in a block of their own; the instruction takes the rest."""

    name = "Start-Sums"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if stage.reduced else "it reduces nothing"

    def apply(self, template: Template, stage: TensorStage) -> None:
        first = next(
            axis for axis in stage.loops if template.root(stage.name, axis) in stage.reduced
        )
        tensorized = template.facts.get(f"tensorized {stage.name}", ())
        assert isinstance(tensorized, tuple)
        vector = tensorized[0] if tensorized else None
        template.steps.append(steps.StartReduction(stage.name, first, vector))
        if tensorized:
            intrinsic = str(template.facts[f"intrinsic {stage.name}"])
            template.steps.append(steps.TensorizeLoops(stage.name, tensorized[0], intrinsic))
