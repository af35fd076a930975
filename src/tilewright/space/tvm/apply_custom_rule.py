"""`ApplyCustomRule`: blocks that name a rule of their own are scheduled by it.

A block annotated with `schedule_rule: "pool"` is scheduled by the function that is registered as
`meta_schedule.<key>.pool`, where <key> is one of the target's keys (`cpu`, `cuda`, ...):

    @register_custom_rule("meta_schedule.cpu.pool")
    def pool(sch, block): ...

Layers above may add places to look names up in, such as the global functions of the runtime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from tilewright.errors import RegistryError, TuneError
from tilewright.ir import annotation_keys as keys
from tilewright.schedule import BlockRV, Schedule
from tilewright.space.base import NotApplied, ScheduleRule, TaskContext, schedule_rules
from tilewright.target import Target

# (schedule, block) -> schedules; what it returns is checked where it is called
CustomRule: TypeAlias = Callable[..., Any]
Lookup: TypeAlias = Callable[[str], "CustomRule | None"]
Function = TypeVar("Function", bound=CustomRule)

PREFIX = "meta_schedule"

_rules: dict[str, CustomRule] = {}
_lookups: list[Lookup] = []


def register_custom_rule(name: str, *, override: bool = False) -> Callable[[Function], Function]:
    """Decorator: make a function the custom rule of that full name."""

    def add(function: Function) -> Function:
        if not override and _rules.get(name, function) is not function:
            raise RegistryError(
                f"a custom schedule rule {name!r} is registered already; pass override=True to "
                "replace it"
            )
        _rules[name] = function
        return function

    return add


def add_custom_rule_lookup(lookup: Lookup) -> None:
    """Ask `lookup` for the names that are not registered here; it returns None if it has none."""
    if lookup not in _lookups:
        _lookups.append(lookup)


def find_custom_rule(name: str) -> CustomRule | None:
    """The custom rule of that full name; what was looked up elsewhere wins over ours."""
    for lookup in reversed(_lookups):
        if (found := lookup(name)) is not None:
            return found
    return _rules.get(name)


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
        name = sch.get_sref(block).block.annotations.get(keys.SCHEDULE_RULE)
        if name is None or name == "None":
            return NotApplied(sch, "it names no rule of its own")
        if self.target is None:
            raise TuneError("ApplyCustomRule must be initialised with a TuneContext first")
        tried = [f"{PREFIX}.{key}.{name}" for key in self.target.keys]
        for full_name in tried:
            if (rule := find_custom_rule(full_name)) is not None:
                return list(rule(sch, block))
        # Operators (`topi.nn.pool2d`) offer such names to whoever registers something for them.
        is_offer = str(name).startswith(f"{PREFIX}.")
        self.logger.log(
            logging.INFO if is_offer else logging.WARNING,
            "block %r asks for the schedule rule %r, but none of these functions is registered: "
            "%s; the default rules take over",
            sch.get_sref(block).name,
            name,
            ", ".join(tried),
        )
        sch.unannotate(block, keys.SCHEDULE_RULE)
        return [sch]
