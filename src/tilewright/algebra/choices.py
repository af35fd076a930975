"""Cases, where the structure of a program depends on decisions: each is interpreted by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.algebra.expr import Expr, Value


class Undecided(Exception):
    """A case that nobody has chosen yet: which one it is, and the expression that says so."""

    def __init__(self, key: object, value: Expr) -> None:
        super().__init__(key)
        self.key = key
        self.value = value


@dataclass(frozen=True)
class Choices:
    """The cases that were chosen so far."""

    chosen: Mapping[object, int] = field(default_factory=dict)

    def get(self, key: object) -> int | None:
        """What was chosen, if anything was."""
        return self.chosen.get(key)

    def decide(self, key: object, value: Value) -> int:
        """The number that a value is, in this case."""
        if isinstance(value, int):
            return value
        if key not in self.chosen:
            raise Undecided(key, value)
        return self.chosen[key]

    def with_choice(self, key: object, number: int) -> Choices:
        return Choices({**self.chosen, key: number})
