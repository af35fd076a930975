"""Tensorize: the innermost loops become an instruction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.heron.rules.base import HeronRule, has_data_reuse, heron_rules
from tilewright.heron.template import Template, TensorStage


@dataclass(frozen=True)
class IntrinsicFit:
    """An instruction by name, and how much of which iterator it takes, outermost first."""

    name: str
    in_dtypes: tuple[str, ...]
    out_dtype: str
    factors: Mapping[str, int]


VNNI = IntrinsicFit("dot_16x4_vnni", ("uint8",), "int32", {"j.c": 16, "k": 4})


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
        for axis, size in self.fit.factors.items():
            if stage.extents.get(axis, 1) % size:
                return f"the extent {stage.extents[axis]} of {axis} is no multiple of {size}"
        return None

    def apply(self, template: Template, stage: TensorStage) -> None:
        template.heading(stage.name, f"## Tensorize {self.fit.name}\n")
        inner = []
        for axis, size in self.fit.factors.items():
            template.split(stage.name, axis, size, by_factor=True)
            inner.append(f"{axis}.inner")
        outer = [axis for axis in stage.loops if axis not in inner]
        template.reorder(stage.name, [*outer, *inner])
        stage.tags.update(dict.fromkeys(inner, "tensorize"))
        template.facts[f"tensorized {stage.name}"] = tuple(inner)
        template.facts[f"intrinsic {stage.name}"] = self.fit.name
