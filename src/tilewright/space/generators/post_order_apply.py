"""`PostOrderApply`: every rule visits every block; each visit may multiply the sketches.

The order of visits and of sketches is TVM's, so that a seed gives the same space: a rule works
through all sketches before the next rule starts; in a sketch it sees the root block first, then the
other blocks from the last to the first; what came last is taken up first. Statistics tell how often
each rule was asked, changed something, failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilewright.errors import TuneError
from tilewright.ir import Block, IRModule, annotation_keys as keys
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.space import base
from tilewright.space.conditions import blocks_inner_first, runs_never
from tilewright.space.defaults import FROM_TARGET
from tilewright.space.generators import configured
from tilewright.space.tvm.apply_custom_rule import ApplyCustomRule
from tilewright.support.member_failures import MemberFailures


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


@base.space_generators.register("post-order-apply")
class PostOrderApply(configured.ConfiguredGenerator):
    """Grows sketches with rules; `f_block_filter` chooses the blocks that rules see.

    A rule of ours that raises is logged and skipped for that block, as one of the user's own is if
    the task keeps going; `statistics` tells how often.
    """

    applies_rules = True

    def __init__(
        self,
        f_block_filter: Callable[[Block], bool] | None = None,
        sch_rules: configured.RulesLike = FROM_TARGET,
        postprocs: configured.PostprocsLike = FROM_TARGET,
        mutator_probs: configured.MutatorsLike = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.f_block_filter = f_block_filter
        self.rand_state = -1
        self.logger = logging.getLogger(__name__)
        self.failures = MemberFailures()
        self.applications: list[RuleApplication] = []

    def _initialize_with_tune_context(self, context: base.TaskContext) -> None:
        super()._initialize_with_tune_context(context)
        self.rand_state = base.fork_rand_state(context)
        self.logger, self.failures = context.logger, context.failures

    @property
    def statistics(self) -> dict[str, RuleStatistics]:
        """What each rule did when the space was last generated."""
        return summarize(self.applications)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        self.applications = []
        sch = Schedule(mod, seed=base.fork_rand_state(self))
        blocks = self._collect_blocks(sch)
        sketches = [sch]
        for rule in self.sch_rules:
            sketches = self._apply_rule(rule, sketches, blocks)
        return sketches

    def _collect_blocks(self, sch: Schedule) -> list[BlockRV]:
        """Handles of all blocks, inner ones before outer ones, those of the filter only."""
        found: list[BlockRV] = []
        for function, root in sch.state.roots.items():
            blocks = [*blocks_inner_first(sch.state, root), root]
            _check_names(function, blocks)
            found.extend(
                sch.get_block(block.name, function)
                for block in blocks
                if self.f_block_filter is None or self.f_block_filter(block.block)
            )
        return found

    def _apply_rule(
        self, rule: base.ScheduleRule, sketches: list[Schedule], blocks: list[BlockRV]
    ) -> list[Schedule]:
        done: list[Schedule] = []
        pending = [(sch, len(blocks)) for sch in sketches]  # and how many blocks are left
        while pending:
            sch, left = pending.pop()
            if left == 0:
                done.append(sch)
                continue
            block = blocks[left - 1]
            made = self._visit(rule, sch, block) if _is_open(rule, sch, block) else [sch]
            pending.extend((after, left - 1) for after in made)
        return done

    def _visit(self, rule: base.ScheduleRule, sch: Schedule, block: BlockRV) -> Sequence[Schedule]:
        """Apply a rule at a block; if it raises, the sketch stays as it was."""
        rule_name, block_name = type(rule).__name__, sch.get_sref(block).name
        length = _trace_length(sch)
        try:
            with sch.all_or_nothing():
                made = _checked(rule_name, rule.apply(sch, block))
        except Exception as error:
            place = f"schedule rule {rule_name} at block {block_name!r}"
            self.failures.take(place, error, rule)
            text = f"{type(error).__name__}: {error}"
            self.logger.warning(
                "schedule rule %s failed at block %r and is skipped there: %s",
                rule_name,
                block_name,
                text,
            )
            self.applications.append(RuleApplication(rule_name, block_name, 1, False, text))
            return [sch]
        reason = made.reason if isinstance(made, base.NotApplied) else ""
        # A rule that looked at loops before it refused has left steps that change nothing.
        changed = not reason and (len(made) != 1 or _trace_length(made[0]) != length)
        self.applications.append(
            RuleApplication(rule_name, block_name, len(made), changed, reason=reason)
        )
        return made


def _trace_length(sch: Schedule) -> int:
    return 0 if sch.trace is None else len(sch.trace.insts)


def _check_names(function: str, blocks: list[StmtSRef]) -> None:
    """Traces refer to blocks by name, so no two may share one."""
    seen: set[str] = set()
    for block in blocks:
        if block.name in seen:
            raise TuneError(
                f"function {function!r} has more than one block called {block.name!r}; rules and "
                "traces find blocks by name, so give each its own"
            )
        seen.add(block.name)


def _is_open(rule: base.ScheduleRule, sch: Schedule, block: BlockRV) -> bool:
    """True when the block is still there, does anything, and no custom rule has claimed it."""
    sref = sch.symbols.get(block)
    if not isinstance(sref, StmtSRef) or sref.stmt is None:
        return False
    if runs_never(sref.block) and not rule.takes_empty:
        return False
    return isinstance(rule, ApplyCustomRule) or keys.SCHEDULE_RULE not in sref.block.annotations


def _checked(rule: str, made: object) -> Sequence[Schedule]:
    """The schedules that a rule returned; an empty list drops the sketch."""
    if not isinstance(made, (list, tuple)) or not all(isinstance(s, Schedule) for s in made):
        raise TuneError(f"schedule rule {rule} must return a list of schedules, got {made!r}")
    checked: Sequence[Schedule] = made
    return checked
