"""Rules for single operators, by name: what the annotation `schedule_rule` of a block refers to.

A block annotated with `schedule_rule: "pool"` is scheduled by the function that is registered as
`meta_schedule.<key>.pool`, where <key> is one of the target's keys (`cpu`, `cuda`, ...):

    @register_custom_rule("meta_schedule.cpu.pool")
    def pool(sch, block): ...

Layers above may add places to look names up in, such as the global functions of the runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from tilewright.errors import RegistryError

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
        found = lookup(name)
        if found is not None:
            return found
    return _rules.get(name)
