"""Watches the rules of a space at work: what each did at each block, and why it did not."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from tilewright.cli.rule_reasons import why_not
from tilewright.errors import TuneError
from tilewright.ir import PrimFunc
from tilewright.schedule import BlockRV, Schedule
from tilewright.space.base import ScheduleRule, SpaceGenerator
from tilewright.space.generators import DefaultSpace, PostOrderApply, SpaceGeneratorUnion
from tilewright.space.rules import ApplyCustomRule
from tilewright.target import Target
from tilewright.tune.context import TuneContext


@dataclass(frozen=True)
class Visit:
    """One rule at one block of one sketch."""

    rule: str
    block: str
    applied: bool
    detail: str  # how many sketches came out, or why nothing happened


@dataclass
class RuleLog:
    """What the rules of one generator did."""

    name: str
    rules: list[str] = field(default_factory=list)
    visits: list[Visit] = field(default_factory=list)


class WatchedRule(ScheduleRule):
    """Does what a rule does, and writes it down."""

    def __init__(self, rule: ScheduleRule, log: RuleLog) -> None:
        self._rule, self._log = rule, log

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        name, before = sch.get_sref(block).name, _steps(sch)
        try:
            made = self._rule.apply(sch, block)
        except Exception as error:
            self._note(name, False, f"failed: {type(error).__name__}: {error}")
            raise
        if len(made) == 1 and _steps(made[0]) == before:
            self._note(name, False, why_not(self._rule, sch, block))
        else:
            self._note(name, True, "" if len(made) == 1 else f"{len(made)} sketches")
        return made

    def _note(self, block: str, applied: bool, detail: str) -> None:
        self._log.visits.append(Visit(type(self._rule).__name__, block, applied, detail))


def _steps(sch: Schedule) -> int:
    return 0 if sch.trace is None else len(sch.trace.insts)


def make_context(func: PrimFunc, target: Target, space: str) -> TuneContext:
    """A task that only generates its space, and keeps its warnings to itself.

    A rule of the user's own that fails is shown, and the others go on.
    """
    logger = logging.getLogger("tilewright.cli.space")
    logger.propagate = False
    logger.handlers = [logging.NullHandler()]
    context = TuneContext(func, target=target, space_generator=space, rand_state=1, logger=logger)
    context.failures.keep_going = True
    return context


def watch(context: TuneContext) -> list[RuleLog]:
    """Generate the space of a task; the generators that were asked, with all that happened."""
    space = context.space_generator
    found = _rule_generators(space, type(space).__name__)
    if not found:
        raise TuneError(f"the space generator {type(space).__name__} does not work with rules")
    logs = []
    for name, generator in found:
        log = RuleLog(name, [type(rule).__name__ for rule in generator.sch_rules])
        # The generator itself looks for this rule, so it is not wrapped.
        generator.sch_rules = [
            rule if isinstance(rule, ApplyCustomRule) else WatchedRule(rule, log)
            for rule in generator.sch_rules
        ]
        logs.append(log)
    context.generate_design_space()
    for log, (_, generator) in zip(logs, found, strict=True):
        _add_custom_rules(log, generator)
    return [log for log in logs if log.visits]


def _rule_generators(space: Any, name: str) -> list[tuple[str, PostOrderApply]]:
    match space:
        case PostOrderApply():
            return [(name, space)]
        case DefaultSpace():
            return [("our own rules", space.kernels), ("MetaSchedule's rules", space.general)]
        case SpaceGeneratorUnion():
            parts: list[SpaceGenerator] = space.space_generators
            return [pair for part in parts for pair in _rule_generators(part, type(part).__name__)]
    return []


def _add_custom_rules(log: RuleLog, generator: PostOrderApply) -> None:
    name = ApplyCustomRule.__name__
    for application in generator.applications:
        if application.rule == name:
            reason = application.error or "it names no rule of its own"
            detail = "" if application.changed else reason
            log.visits.append(Visit(name, application.block, application.changed, detail))
