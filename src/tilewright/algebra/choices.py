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

    def has(self, key: object, number: int) -> bool:
        """True where just this was chosen."""
        return self.chosen.get(key) == number

    def decide(self, key: object, value: Value) -> int:
        """The number that a value is, in this case."""
        if isinstance(value, int):
            return value
        if key not in self.chosen:
            raise Undecided(key, value)
        return self.chosen[key]

    def with_choice(self, key: object, number: int) -> Choices:
        return Choices({**self.chosen, key: number})


class RecordedChoices(Choices):
    """Choices that remember what somebody asked of them."""

    def __init__(self, chosen: Mapping[object, int]) -> None:
        super().__init__(chosen)
        self._asked: dict[tuple[object, int], bool]
        object.__setattr__(self, "_asked", {})

    def has(self, key: object, number: int) -> bool:
        self._asked[key, number] = super().has(key, number)
        return self._asked[key, number]

    def decide(self, key: object, value: Value) -> int:
        found = super().decide(key, value)
        if not isinstance(value, int):
            self._asked[key, found] = True
        return found

    def agree_with(self, others: Choices) -> bool:
        """True where others give the same answers."""
        return all(others.has(*asked) is answer for asked, answer in self._asked.items())
