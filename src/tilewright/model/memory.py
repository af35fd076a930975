"""Places of intermediate values: offsets in one block of memory, reused when nobody reads on.

Largest first, each into the lowest gap among those that live at the same time; for chains of layers
that reaches the least that is possible, or nearly so.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

ALIGNMENT = 64
KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True)
class Lifetime:
    """The bytes of a value, the step that makes it, and the last one that reads it."""

    bytes: int
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """True if both are needed at the same time."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class MemoryPlan(Generic[KeyT]):
    """Offsets of values, and the size of the block."""

    offsets: Mapping[KeyT, int]
    bytes: int


def plan_memory(lifetimes: Mapping[KeyT, Lifetime]) -> MemoryPlan[KeyT]:
    """A place for each value."""
    offsets: dict[KeyT, int] = {}
    for key in sorted(lifetimes, key=lambda key: (-lifetimes[key].bytes, lifetimes[key].first)):
        own = lifetimes[key]
        taken = [
            (offsets[other], offsets[other] + _padded(lifetimes[other].bytes))
            for other in offsets
            if own.overlaps(lifetimes[other])
        ]
        offsets[key] = _lowest_gap(taken, _padded(own.bytes))
    ends = (offsets[key] + _padded(lifetimes[key].bytes) for key in offsets)
    return MemoryPlan(offsets, max(ends, default=0))


def _lowest_gap(taken: Iterable[tuple[int, int]], wanted: int) -> int:
    start = 0
    for low, high in sorted(taken):
        if low - start >= wanted:
            break
        start = max(start, high)
    return start


def _padded(count: int) -> int:
    return -(-max(count, 1) // ALIGNMENT) * ALIGNMENT
