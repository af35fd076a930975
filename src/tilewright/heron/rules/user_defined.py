"""User-Defined-Rule: a condition and a transformation of the user's own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import TuneError
from tilewright.heron.rules.base import HeronRule, heron_rules
from tilewright.heron.template import Template, TensorStage


@heron_rules.register("User-Defined-Rule")
@dataclass(frozen=True)
class UserDefinedRule(HeronRule):
    """Applies where the condition holds; the transformation uses the primitives of `Template`.

    `is_last`: it schedules the whole stage, so no other rule looks at it.
    """

    condition: Callable[[Template, TensorStage], bool]
    transform: Callable[[Template, TensorStage], None]
    is_last: bool = False

    name = "User-Defined-Rule"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if self.condition(template, stage) else "the user's condition does not hold"

    def apply(self, template: Template, stage: TensorStage) -> None:
        self.transform(template, stage)


def loaded_rule(text: str, beside: Path = Path()) -> HeronRule:
    """A rule by where it is defined: `package.module:name`, installed or in a folder."""
    module, _, name = text.partition(":")
    if not module or not name:
        raise TuneError(f"the rule {text!r} must be of the form package.module:name")
    try:
        with _also_found_in(beside):
            found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise TuneError(f"the rule {text!r} cannot be loaded: {error}") from error
    if not isinstance(found, HeronRule):
        raise TuneError(f"the rule {text!r} must be a HeronRule, got {type(found).__name__}")
    return found


@contextmanager
def _also_found_in(folder: Path) -> Iterator[None]:
    """Inside, modules of a folder can be imported as well."""
    name = str(folder.resolve())
    sys.path.append(name)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(name)
