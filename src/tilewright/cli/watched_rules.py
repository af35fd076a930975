"""Reads what the rules of a space did at each block, and why they did not."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from tilewright.errors import TuneError
from tilewright.ir import PrimFunc
from tilewright.space.base import SpaceGenerator
from tilewright.space.generators import DefaultSpace, PostOrderApply, SpaceGeneratorUnion
from tilewright.space.generators.post_order_apply import RuleApplication
from tilewright.support.text import counted
from tilewright.target import Target
from tilewright.tune.context import TuneContext

NOTHING_TO_DO: Final = "the rule found nothing to do"  # of rules that return no `NotApplied`


@dataclass(frozen=True)
class Visit:
    """One rule at one block of one sketch."""

    rule: str
    block: str
    applied: bool
    detail: str  # how many sketches came out, or why nothing happened

    @staticmethod
    def of(made: RuleApplication) -> Visit:
        """The visit that a generator has noted."""
        if made.error is not None:
            detail = f"failed: {made.error}"
        elif made.changed:
            detail = "" if made.results == 1 else counted(made.results, "sketch", "sketches")
        else:
            detail = made.reason or NOTHING_TO_DO
        return Visit(made.rule, made.block, made.changed, detail)


@dataclass(frozen=True)
class RuleLog:
    """The work of the rules of one generator."""

    name: str
    rules: list[str]
    visits: list[Visit]


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
    context.generate_design_space()
    return [
        RuleLog(
            name,
            [type(rule).__name__ for rule in generator.sch_rules],
            [Visit.of(application) for application in generator.applications],
        )
        for name, generator in found
        if generator.applications
    ]


def _rule_generators(space: object, name: str) -> list[tuple[str, PostOrderApply]]:
    match space:
        case PostOrderApply():
            return [(name, space)]
        case DefaultSpace():
            return [("our own rules", space.kernels), ("MetaSchedule's rules", space.general)]
        case SpaceGeneratorUnion():
            parts: list[SpaceGenerator] = space.space_generators
            return [pair for part in parts for pair in _rule_generators(part, type(part).__name__)]
    return []
