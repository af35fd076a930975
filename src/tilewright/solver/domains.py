"""Domains of variables: an interval while it is wide, an array of rising values once it is not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.algebra import constraints

Values = NDArray[np.int64]

WIDEST = 1 << 62  # products beyond it are no extents of anything


def distinct(values: Values) -> Values:
    """The values in rising order, each once; several times faster than by hashing."""
    if len(values) > 1 and not (values[1:] > values[:-1]).all():
        values = np.sort(values)
        values = values[np.append(True, values[1:] != values[:-1])]
    return values


@dataclass(frozen=True, eq=False)
class ValueSet:
    """Integers from `low` to `high`; `listed` if they are not all of them."""

    low: int
    high: int
    listed: Values | None = None

    @classmethod
    def of(cls, values: Values) -> ValueSet:
        """A set of rising values."""
        if not len(values):
            return cls(0, -1)
        return cls(int(values[0]), int(values[-1]), values)

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.listed) if self.listed is not None else max(0, self.high - self.low + 1)

    @property
    def values(self) -> Values:
        """All of them as an array."""
        if self.listed is not None:
            return self.listed
        return np.arange(self.low, self.high + 1, dtype=np.int64)

    def contains(self, numbers: Values) -> NDArray[np.bool_]:
        """For each number whether it is one of them."""
        inside = (numbers >= self.low) & (numbers <= self.high)
        if self.listed is None or not len(self.listed):
            return inside
        places = np.searchsorted(self.listed, numbers).clip(max=len(self.listed) - 1)
        found: NDArray[np.bool_] = inside & (self.listed[places] == numbers)
        return found

    def places(self, numbers: Values) -> NDArray[np.int64]:
        """Where numbers that are in it stand."""
        if self.listed is None:
            return numbers - self.low
        return np.searchsorted(self.listed, numbers)

    def between(self, low: int, high: int) -> ValueSet:
        """Those from `low` to `high`."""
        if low <= self.low and high >= self.high:
            return self
        if self.listed is None:
            return ValueSet(max(low, self.low), min(high, self.high))
        begin, end = np.searchsorted(self.listed, [low, high + 1])
        return ValueSet.of(self.listed[begin:end])

    def common(self, other: ValueSet) -> ValueSet:
        """Those that are in both."""
        if other.listed is None:
            return self.between(other.low, other.high)
        if self.listed is None:
            return other.between(self.low, self.high)
        kept = self.listed[other.contains(self.listed)]
        return self if len(kept) == len(self.listed) else ValueSet.of(kept)


def value_set(domain: constraints.Domain) -> ValueSet:
    """The domain of a variable of a problem."""
    if isinstance(domain, range):
        if domain.step == 1:
            return ValueSet(domain.start, domain.stop - 1)
        return ValueSet.of(distinct(np.asarray(list(domain), dtype=np.int64)))
    return ValueSet.of(distinct(np.asarray(domain, dtype=np.int64)))
