"""Tensorize: the innermost loops become an instruction."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.heron.rules.base import HeronRule, has_data_reuse, heron_rules
from tilewright.heron.template import Template, TensorStage


@dataclass(frozen=True)
class IntrinsicFit:
    """An instruction by name: `results` results at once, each a sum of `products` products."""

    name: str
    in_dtypes: tuple[str, ...]
    out_dtype: str
    results: int
    products: int

    def factors(self, stage: TensorStage) -> dict[str, int]:
        """How much of which iterator it takes, outermost first."""
        return {stage.spatial[-1]: self.results, stage.reduced[-1]: self.products}


VNNI = IntrinsicFit("dot_16x4_vnni", ("uint8",), "int32", 16, 4)


@heron_rules.register("Tensorize")
@dataclass(frozen=True)
class HeronTensorize(HeronRule):
    """Applies where the data types are the instruction's and its sizes divide the extents."""

    fit: IntrinsicFit = VNNI

    name = "Tensorize"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        if not has_data_reuse(template, stage) or not stage.reduced:
            return "it is no contraction"
        if template.in_dtype not in self.fit.in_dtypes or template.out_dtype != self.fit.out_dtype:
            return f"{self.fit.name} does not take {template.in_dtype} to {template.out_dtype}"
        first = template.stages[stage.reads[0]]
        if stage.spatial[-1].removesuffix(".c") in first.follows.values():
            return f"its results along {stage.spatial[-1]} share no element of {first.name}"
        for axis, size in self.fit.factors(stage).items():
            if stage.extents[axis] % size:
                return f"the extent {stage.extents[axis]} of {axis} is no multiple of {size}"
        return None

    def apply(self, template: Template, stage: TensorStage) -> None:
        template.heading(stage.name, f"## Tensorize {self.fit.name}\n")
        inner = []
        for axis, size in self.fit.factors(stage).items():
            template.split(stage.name, axis, size, by_factor=True)
            inner.append(f"{axis}.inner")
        outer = [axis for axis in stage.loops if axis not in inner]
        template.reorder(stage.name, [*outer, *inner])
        stage.tags.update(dict.fromkeys(inner, "tensorize"))
        template.facts[f"tensorized {stage.name}"] = tuple(inner)
        template.facts[f"intrinsic {stage.name}"] = self.fit.name
