"""Statistics of rules while a space is generated: how often each was asked, changed, failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class RuleApplication:
    """One rule at one block of one sketch."""

    rule: str
    block: str
    results: int  # how many sketches came out
    changed: bool  # whether one of them differs from what went in
    error: str | None = None  # why the rule was skipped here
    reason: str = ""  # why the rule left the block alone, if it said so


@dataclass(frozen=True)
class RuleStatistics:
    """All applications of a rule."""

    asked: int = 0
    changed: int = 0
    failed: int = 0
    blocks: tuple[str, ...] = ()  # those that it changed
    errors: tuple[str, ...] = ()  # each once


def summarize(applications: Iterable[RuleApplication]) -> dict[str, RuleStatistics]:
    """Statistics by rule, in the order in which rules were first asked."""
    by_rule: dict[str, list[RuleApplication]] = {}
    for application in applications:
        by_rule.setdefault(application.rule, []).append(application)
    return {rule: _of(found) for rule, found in by_rule.items()}


def _of(found: list[RuleApplication]) -> RuleStatistics:
    errors = dict.fromkeys(a.error for a in found if a.error is not None)
    return RuleStatistics(
        asked=len(found),
        changed=sum(a.changed for a in found),
        failed=sum(a.error is not None for a in found),
        blocks=tuple(dict.fromkeys(a.block for a in found if a.changed)),
        errors=tuple(errors),
    )
