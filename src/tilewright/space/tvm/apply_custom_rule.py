"""`ApplyCustomRule`: blocks that name a rule of their own are scheduled by it."""

from __future__ import annotations

import logging

from tilewright.errors import TuneError
from tilewright.ir.annotation_keys import SCHEDULE_RULE
from tilewright.schedule import BlockRV, Schedule
from tilewright.space.base import NotApplied, ScheduleRule, TaskContext, schedule_rules
from tilewright.space.tvm.custom_rules import PREFIX, find_custom_rule
from tilewright.target import Target


@schedule_rules.register("ApplyCustomRule")
class ApplyCustomRule(ScheduleRule):
    """Looks for `meta_schedule.<key>.<name>` under each key of the target in turn."""

    def __init__(self) -> None:
        self.target: Target | None = None
        self.logger = logging.getLogger(__name__)

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        if context.target is None:
            raise TuneError("ApplyCustomRule needs a target; give one to the TuneContext")
        self.target, self.logger = context.target, context.logger

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        name = sch.get_sref(block).block.annotations.get(SCHEDULE_RULE)
        if name is None or name == "None":
            return NotApplied(sch, "it names no rule of its own")
        if self.target is None:
            raise TuneError("ApplyCustomRule must be initialised with a TuneContext first")
        tried = [f"{PREFIX}.{key}.{name}" for key in self.target.keys]
        for full_name in tried:
            rule = find_custom_rule(full_name)
            if rule is not None:
                return list(rule(sch, block))
        self.logger.warning(
            "block %r asks for the schedule rule %r, but none of these functions is registered: "
            "%s; the default rules take over",
            sch.get_sref(block).name,
            name,
            ", ".join(tried),
        )
        sch.unannotate(block, SCHEDULE_RULE)
        return [sch]
