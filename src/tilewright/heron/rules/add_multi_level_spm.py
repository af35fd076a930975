"""Add Multi-level SPM: operands pass through each level of memory that the machine manages by hand.

On tensor cores an operand goes from global to shared memory and on to a fragment; the result goes
the same way back.
"""

from __future__ import annotations

import math

from tilewright.algebra.constraints import Eq, Prod, SelectFrom, Sum
from tilewright.heron import steps
from tilewright.heron.names import Key
from tilewright.heron.rules.add_cache_stage import cache_write
from tilewright.heron.rules.base import HeronRule, has_data_reuse, heron_rules
from tilewright.heron.template import Template, TensorStage
from tilewright.heron.wmma_tiles import DEPTH, FRAGMENTS

_SHARED = "shared"
_ACCUMULATOR = "wmma.accumulator"
_FRAGMENTS = ("wmma.matrix_a", "wmma.matrix_b")
_POSITIONS = range(11)  # as many as a stage of three levels of tiles can have
_SIDES = tuple(sorted(m for m, _ in FRAGMENTS))
_AREA = math.prod(FRAGMENTS[0])


def wmma(letter: str) -> str:
    """The variable of an extent of a tile: m, n or k."""
    return Key("P", None, None, f"wmma_{letter}").full


@heron_rules.register("Add Multi-level SPM")
class AddMultiLevelSpm(HeronRule):
    """Applies to stages with data reuse, on machines with several levels of scratchpads."""

    name = "Add Multi-level SPM"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if has_data_reuse(template, stage) else "no element of its inputs is used twice"

    def apply(self, template: Template, stage: TensorStage) -> None:
        template.heading(stage.name, "## Cache tensor core")
        _declare_tile(template)
        inputs = stage.reads
        shared = f"{stage.name}.{_ACCUMULATOR}.{_SHARED}"
        computed = self._add_result_stages(template, stage, shared)
        for index, (source, scope) in enumerate(zip(inputs, _FRAGMENTS, strict=True)):
            _add_operand_stages(template, computed, index, source, scope)
        self._attach(template, stage, computed, shared, inputs)

    def _add_result_stages(
        self, template: Template, stage: TensorStage, shared: str
    ) -> TensorStage:
        """Accumulator, its copy in shared memory, and `stage` as the copy out of that."""
        axes = tuple(f"ax{place}" for place in range(len(stage.spatial)))
        extents = {axis: stage.extents[own] for axis, own in zip(axes, stage.spatial, strict=True)}
        follows = dict(zip(axes, stage.spatial, strict=True))
        computed = cache_write(template, stage, _ACCUMULATOR, stage.reads)
        template.steps[-2:] = [
            steps.CacheResult(stage.name, shared, computed.name, (_SHARED, _ACCUMULATOR)),
            steps.TakeLoops(stage.name, stage.spatial),
        ]
        middle = TensorStage(shared, axes, (), (computed.name,), extents, follows, scope=_SHARED)
        template.stages[shared] = middle
        template.order.insert(template.order.index(computed.name), shared)
        template.begin(shared)
        stage.reads = (shared,)
        computed.follows = {own: axis for own, axis in zip(computed.spatial, axes, strict=True)}
        return computed

    def _attach(
        self,
        template: Template,
        stage: TensorStage,
        computed: TensorStage,
        shared: str,
        inputs: tuple[str, ...],
    ) -> None:
        shared_pos = template.knob(computed.name, "shared_pos", _POSITIONS)
        local_pos = template.knob(computed.name, "local_pos", _POSITIONS)
        for source, scope in zip(inputs, _FRAGMENTS, strict=True):
            template.attached[f"{source}.{_SHARED}"] = (computed.name, shared_pos)
            template.attached[f"{source}.{_SHARED}.{scope}"] = (computed.name, local_pos)
        out_pos = template.knob(stage.name, "shared_pos", _POSITIONS)
        template.attached[shared] = (stage.name, out_pos)
        warp_pos = template.knob(shared, "local_pos", _POSITIONS)
        template.attached[computed.name] = (shared, warp_pos)
        template.facts["tensor core"] = (stage.name, shared, computed.name)


def _declare_tile(template: Template) -> None:
    """The sides of a tile: m and n of 8, 16, 32 with an area of 256, k of 16."""
    origin = "wmma tiles: m * n = 256 with k = 16"
    for letter in "mkn":
        name = f"wmma_{letter}"
        template.defaults[name] = DEPTH
        if letter == "k":
            template.knob(None, name, range(DEPTH, DEPTH + 1))
            continue
        knob = template.knob(None, name, _SIDES, candidates=_SIDES)
        chosen = [Key("O", None, None, f"{name}_cand{place}") for place in range(len(_SIDES))]
        flags = [template.declare(key, range(2)) for key in chosen]
        place = template.declare(
            Key("O", None, None, f"{name}_place", is_hidden=True), range(len(_SIDES))
        )
        for number, flag in enumerate(flags):
            row = tuple(int(number == other) for other in range(len(_SIDES)))
            template.require(SelectFrom(origin, flag, place, row))
        template.require(Sum(origin, 1, tuple(flags)), SelectFrom(origin, knob, place, _SIDES))
    area = template.declare(Key("V", None, None, "wmma_m_wmma_n"), range(1, 4097))
    template.require(Prod(origin, area, (wmma("m"), wmma("n"))), Eq(origin, area, _AREA))


def _add_operand_stages(
    template: Template, computed: TensorStage, index: int, source: str, scope: str
) -> None:
    """An operand in shared memory, and from there in fragments."""
    original = template.stages[source]
    to_computed = {
        own: own if own in computed.reduced else f"{own}.c" for own in original.follows.values()
    }
    follows = {axis: to_computed[own] for axis, own in original.follows.items()}
    shared, fragment = f"{source}.{_SHARED}", f"{source}.{_SHARED}.{scope}"
    template.steps.append(steps.CacheReadStep(computed.name, index, source, shared, _SHARED))
    template.steps.append(steps.CacheReadStep(computed.name, index, shared, fragment, scope))
    place = template.order.index(source)
    for name, reads, where in ((shared, source, _SHARED), (fragment, shared, scope)):
        extents = dict(original.extents)
        made = TensorStage(name, original.spatial, (), (reads,), extents, dict(follows))
        made.scope, made.run = where, original.run
        template.stages[name] = made
        template.order.insert(place, name)
        template.begin(name)
    computed.reads = tuple(fragment if name == source else name for name in computed.reads)
