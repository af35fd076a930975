"""`HeronSpace`: what the rules of a platform made of an operator, a plain value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.algebra.constraints import Constraint, ConstraintProblem, Term
from tilewright.heron import steps
from tilewright.heron.names import Key
from tilewright.heron.operators import HeronOperator
from tilewright.heron.platforms import Platform
from tilewright.heron.rules.base import HeronRule
from tilewright.heron.template import Template, TensorStage
from tilewright.schedule import Schedule


@dataclass(frozen=True, eq=False)
class HeronSpace:
    """A constraint problem, and the steps that turn its solutions into schedules."""

    operation: HeronOperator
    platform: str
    problem: ConstraintProblem
    steps: tuple[steps.ScheduleStep, ...]
    keys: Mapping[str, Key]
    candidates: Mapping[str, tuple[int, ...]]
    axis_parents: Mapping[str, Sequence[str]]
    axis_brothers: Mapping[str, str]
    axis_lengths: Mapping[str, int]
    compute_positions: Mapping[str, tuple[str, Term]]
    stages: Mapping[str, TensorStage]
    defaults: Mapping[str, int]

    @property
    def knobs(self) -> tuple[str, ...]:
        """The names of all tunable parameters."""
        return tuple(name for name, key in self.keys.items() if key.prefix == "P")

    @property
    def knob_names(self) -> list[str]:
        """Short names of the kinds of parameters, each once."""
        return list(dict.fromkeys(self.keys[name].short for name in self.knobs))

    def variables(self) -> dict[str, tuple[int, int, int]]:
        """Short name -> smallest and largest value and default, as Heron lists its variables."""
        found: dict[str, tuple[int, int, int]] = {}
        for variable in self.problem.variables:
            key, domain = self.keys[variable.name], variable.domain
            if key.is_hidden:
                continue
            usual = self.defaults.get(key.short, domain[0])
            low, high, default = found.get(key.short, (domain[0], domain[-1], usual))
            found[key.short] = min(low, domain[0]), max(high, domain[-1]), default
        return found

    def short_positions(self) -> dict[str, tuple[str, str]]:
        """For each stage inside another one that one, and the short name of the position."""
        return {
            stage: (consumer, self.keys[str(position)].short)
            for stage, (consumer, position) in self.compute_positions.items()
        }

    def position_names(self) -> dict[str, list[str]]:
        """For each stage with others inside the loops at which these may be."""
        used = {consumer for consumer, _ in self.compute_positions.values()}
        return {name: list(self.stages[name].positions) for name in self.stages if name in used}

    def script(self, values: Mapping[str, int]) -> str:
        """The schedule as text, with these values for parameters; others are 1."""
        lines = (step.text(values) for step in self.steps)
        return "\n".join(line for line in lines if line) + "\n"

    def schedule(self, values: Mapping[str, int]) -> Schedule:
        """The schedule that a solution stands for."""
        player = steps.Player.on(self.operation.mod, values)
        for step in self.steps:
            step.replay(player)
        return player.sch


def space_of(
    operation: HeronOperator,
    platform: Platform,
    rules: Sequence[HeronRule] = (),
    constraints: Sequence[Constraint] = (),
) -> HeronSpace:
    """Let rules work on an operator, output first; `rules` and `constraints` are the user's."""
    template = operation.make_template()
    _apply(platform.prepare, template)
    scheduled = [name for name in template.order if not template.stages[name].is_input]
    template.facts["last stage"] = scheduled[-1]
    for name in scheduled:
        stage = template.stages[name]
        template.heading(name, f"#==--------- Start schedule STAGE {name} ----------==#\n")
        if name in template.attached:
            template.compute_at(name)
        for rule in (*rules, *platform.schedule):
            if rule.why_not(template, stage) is None:
                rule.apply(template, stage)
                stage.done.add(rule.name)
                if rule.is_last:
                    break
    template.require(*constraints)
    return HeronSpace(
        operation,
        platform.name,
        template.problem(),
        tuple(template.steps),
        dict(template.keys),
        dict(template.candidates),
        dict(template.parents),
        dict(template.brothers),
        dict(template.lengths),
        dict(template.attached),
        dict(template.stages),
        dict(template.defaults),
    )


def _apply(rules: Sequence[HeronRule], template: Template) -> None:
    for name in list(template.order):
        for rule in rules:
            stage = template.stages.get(name)
            if stage is not None and rule.why_not(template, stage) is None:
                rule.apply(template, stage)
                stage.done.add(rule.name)
