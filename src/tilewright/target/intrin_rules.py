"""Rules that say how a target spells an operator.

A rule takes the `Call` of an operator and returns an expression that the target can emit: usually
a call of an extern C function or of an LLVM intrinsic. Backends ask `find_intrin_rule` before they
look at their own tables, so a user's rule wins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.errors import RegistryError

IntrinRule = Callable[[Any], Any]

_rules: dict[tuple[str, str], IntrinRule] = {}


def register_intrin_rule(
    target: str, name: str, rule: IntrinRule | None = None, override: bool = False
) -> Any:
    """Register how `target` ("llvm", "cuda", ... or "default") lowers the operator `tir.<name>`.

    Usable as a function or, without `rule`, as a decorator.
    """
    if rule is None:
        return lambda function: register_intrin_rule(target, name, function, override)
    key = (target, _full_name(name))
    if key in _rules and not override:
        raise RegistryError(
            f"target {target!r} has a rule for {key[1]!r} already; pass override=True to replace it"
        )
    _rules[key] = rule
    return rule


def remove_intrin_rule(target: str, name: str) -> None:
    """Forget a rule."""
    _rules.pop((target, _full_name(name)), None)


def find_intrin_rule(target: str, op_name: str) -> IntrinRule | None:
    """The rule of `target` for an operator, else the default one, else None."""
    return _rules.get((target, op_name)) or _rules.get(("default", op_name))


def rules_from_outside() -> bool:
    """True once somebody else than Tilewright has registered a rule."""
    return any(
        not getattr(rule, "__module__", "").startswith("tilewright.") for rule in _rules.values()
    )


def _full_name(name: str) -> str:
    return name if "." in name else f"tir.{name}"
