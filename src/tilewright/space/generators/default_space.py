"""`DefaultSpace`: our own rules where they cover a program, MetaSchedule's where they do not.

Our rules (kind "kernels") write kernels as an expert would, with few decisions, each of them good.
They do not know every program. One that they leave a block of untouched is given to the rules that
MetaSchedule has for the target.

Where a tensor instruction fits, MetaSchedule's sketches around it compete with ours; operands are
packed and padded for it. They need a search: most of their tiles do not fit into the registers. So
they, and plain tiles, are left out on request where ours have the instruction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tilewright.ir import Block, IRModule, annotation_keys as keys, nodes_of
from tilewright.schedule import Schedule
from tilewright.schedule.primitives.tensorize import Tensorize
from tilewright.schedule.trace.instruction import is_step
from tilewright.space import base
from tilewright.space.conditions import runs_never
from tilewright.space.defaults import kind_of_default_space
from tilewright.space.generators.post_order_apply import PostOrderApply
from tilewright.space.rules import MultiLevelTilingWithIntrin, WideAccumulators
from tilewright.space.tensor.tensor_tiling import TensorTiling

# The list of our rules, by the kind of target.
_KERNELS = {"cuda": "cuda-kernels", "vta": "vta"}
_CPU_KERNELS = "kernels"
_WIDER_KERNELS = "wider-kernels"


@base.space_generators.register("tilewright")
class DefaultSpace(base.SpaceGenerator):
    """The generator that tuning uses unless told otherwise."""

    has_baselines: ClassVar[bool] = True

    def __init__(self, *, always_competes: bool = True) -> None:
        self.kernels = _space_of(_CPU_KERNELS)
        self._wider = _space_of(_WIDER_KERNELS)
        self._always_competes = always_competes
        self.general = PostOrderApply()
        self._chosen: tuple[PostOrderApply, ...] = (self.general,)
        self._is_cpu = False
        self._has_kernels = False
        self._intrin_rules: list[MultiLevelTilingWithIntrin] = []

    def _initialize_with_tune_context(self, context: base.TaskContext) -> None:
        self._is_cpu = context.target is not None and context.target.is_cpu
        kind = None if context.target is None else _KERNELS.get(context.target.kind.name)
        if kind is not None and context.target is not None:
            self.kernels = _space_of(kind)
            self.general = _space_of(kind_of_default_space(context.target))
        self._has_kernels = self._is_cpu or kind is not None
        self.kernels._initialize_with_tune_context(context)
        if self._is_cpu:
            self._wider._initialize_with_tune_context(context)
        self.general._initialize_with_tune_context(context)
        for own in self.kernels.sch_rules:
            if isinstance(own, TensorTiling):
                own.plain_competes = self._always_competes
        rules = list(self.general.sch_rules)
        if self._is_cpu and not any(isinstance(rule, WideAccumulators) for rule in rules):
            rules = self.general.sch_rules = [WideAccumulators(), *rules]
        self._intrin_rules = [r for r in rules if isinstance(r, MultiLevelTilingWithIntrin)]
        for rule in self._intrin_rules:
            rule.adapt_operands = True

    # The members of the spaces that sketches were last taken from. Each leaves alone what it does
    # not know, so that the members of two may work on the sketches of either.

    @property
    def sch_rules(self) -> Sequence[base.ScheduleRule]:  # type: ignore[override]
        return [rule for space in self._chosen for rule in space.sch_rules]

    @property
    def postprocs(self) -> Sequence[base.Postproc]:  # type: ignore[override]
        return self._chosen[-1].postprocs

    @property
    def mutator_probs(self) -> Mapping[base.Mutator, float]:  # type: ignore[override]
        return {
            mutator: probability / len(self._chosen)
            for space in self._chosen
            for mutator, probability in space.mutator_probs.items()
        }

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        if self._has_kernels:
            self._chosen = (self.kernels,)
            sketches = self.kernels.generate_design_space(mod)
            complete = [sketch for sketch in sketches if _is_complete(sketch)]
            competes = self._always_competes or not any(map(has_instruction, complete))
            rivals = self._around_instructions(mod) if complete and competes else []
            if rivals:
                self._chosen = (self.kernels, self.general)
            if complete:
                return [*complete, *rivals]
        self._chosen = (self.general,)
        return self.general.generate_design_space(mod)

    def generate_wider_space(self, mod: IRModule) -> list[Schedule]:
        if not self._is_cpu or self.kernels not in self._chosen:
            return []
        return [each for each in self._wider.generate_design_space(mod) if _is_complete(each)]

    def _around_instructions(self, mod: IRModule) -> list[Schedule]:
        """MetaSchedule's sketches that have an instruction in them."""
        blocks = [block for func in mod.functions.values() for block in nodes_of(func.body, Block)]
        if not any(rule.computes(block) for rule in self._intrin_rules for block in blocks):
            return []
        return list(filter(waits_for_instruction, self.general.generate_design_space(mod)))


def has_instruction(sketch: Schedule) -> bool:
    """True if a rule has put an instruction into a block."""
    steps = [] if sketch.trace is None else sketch.trace.insts
    return any(is_step(step, Tensorize) for step in steps)


def waits_for_instruction(sketch: Schedule) -> bool:
    """True if `RewriteTensorize` will put an instruction into a block."""
    return any(keys.AUTO_TENSORIZE in sref.block.annotations for sref in sketch.state.infos)


def _space_of(kind: str) -> PostOrderApply:
    """The space of one list of members."""
    return PostOrderApply(sch_rules=kind, postprocs=kind, mutator_probs=kind)


def _is_complete(sketch: Schedule) -> bool:
    """True when a rule has taken care of every block, or it has become an instruction.

    Blocks that do nothing need no care, unless there is nothing else.
    """
    blocks = [sref.block for sref in sketch.state.infos if sref.parent is not None]
    busy = [block for block in blocks if not runs_never(block)]
    return bool(busy) and all(
        keys.TILING_STRUCTURE in block.annotations or block.match_buffers for block in busy
    )
