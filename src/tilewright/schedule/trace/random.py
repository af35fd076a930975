"""The random engine of schedules, bit for bit that of TVM, so that recorded searches repeat.

A draw multiplies the state by 48271 modulo 2**31 - 1. The helpers reproduce what C++'s standard
distributions make of such an engine.
"""

from __future__ import annotations

import bisect
import itertools
import math
import secrets
from collections.abc import Callable, Sequence

from tilewright.errors import ScheduleError

MULTIPLIER = 48271
MODULUS = 2147483647
_URANGE = MODULUS - 1


class RandomEngine:
    """A linear congruential engine; its state is one integer."""

    __slots__ = ("state",)

    def __init__(self, seed: int = -1) -> None:
        self.state = normalize_seed(seed)

    def draw(self) -> int:
        """The next number."""
        self.state = self.state * MULTIPLIER % MODULUS
        return self.state

    def fork_seed(self) -> int:
        """A seed for an engine of its own; advances this one once."""
        return self.draw() * 32767 % 1999999973

    def fork(self) -> RandomEngine:
        """An engine of its own."""
        return RandomEngine(self.fork_seed())

    def integer(self, low: int, high: int) -> int:
        """A number in [low, high); no draw when there is only one."""
        count = high - low
        if count == 1:
            return low
        scaling = _URANGE // count
        limit = count * scaling
        while True:
            value = self.draw()
            if value < limit:
                return low + value // scaling

    def canonical(self) -> float:
        """A number in [0, 1) from two draws."""
        first, second = self.draw(), self.draw()
        value = (first + second * float(MODULUS)) / (float(MODULUS) * MODULUS)
        return value if value < 1.0 else math.nextafter(1.0, 0.0)

    def discrete(self, weights: Sequence[float]) -> int:
        """An index with the given weights; no draw when there is only one."""
        if len(weights) == 1:
            return 0
        total = math.fsum(weights)
        prefix = list(itertools.accumulate(weight / total for weight in weights))
        prefix[-1] = 1.0
        return bisect.bisect_left(prefix, self.canonical())

    def without_replacement(self, count: int, chosen: int) -> list[int]:
        """`chosen` different numbers below `count`."""
        if chosen == 1:
            return [self.integer(0, count)]
        if chosen == 2:
            first, second = self.integer(0, count), self.integer(0, count - 1)
            return [first, second + 1 if second >= first else second]
        order = list(range(count))
        for i in range(chosen):
            j = self.integer(i, count)
            order[i], order[j] = order[j], order[i]
        return order[:chosen]

    def multinomial(self, weights: Sequence[float]) -> Callable[[], int]:
        """A sampler of indices with an engine of its own."""
        engine = self.fork()
        prefix = list(itertools.accumulate(weights))

        def sample() -> int:
            point = engine.canonical() * prefix[-1]
            return min(bisect.bisect_left(prefix, point), len(prefix) - 1)

        return sample


def normalize_seed(seed: int) -> int:
    """The state that a seed stands for; -1 asks the system for one."""
    if seed == -1:
        seed = secrets.randbelow(MODULUS)
    if seed < 0:
        raise ScheduleError(f"a seed is -1 or a number from 0 to {_URANGE}, got {seed}")
    return seed % MODULUS or 1
