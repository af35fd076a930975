"""Random decision vectors of a sketch, as columns."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.algebra.decisions import (
    CategoricalDecision,
    Columns,
    Decision,
    LocationDecision,
    TileDecision,
)
from tilewright.schedule.primitives.sample_compute_location import INLINE
from tilewright.schedule.primitives.sample_perfect_tile import factorize

_ROUNDS = 64  # of draws until the innermost factor is small enough


def random_population(
    decisions: Sequence[Decision], count: int, random: np.random.Generator
) -> Columns:
    """So many vectors; each decision is drawn by itself."""
    found: Columns = {}
    for decision in decisions:
        found.update(_drawn(decision, count, random))
    return found


def every_vector(decisions: Sequence[Decision], most: int) -> Columns | None:
    """All decision vectors; None where there are more than `most`."""
    options: list[npt.NDArray[np.int64]] = []
    left = most
    for decision in decisions:
        own = _options(decision, left)
        if own is None:
            return None
        options.append(own)
        left //= len(own)
    sizes = [len(own) for own in options]
    places = np.indices(sizes).reshape(len(sizes), math.prod(sizes))
    found: Columns = {}
    for decision, own, place in zip(decisions, options, places, strict=True):
        found.update(decision.columns(own[place]))
    return found


def _options(decision: Decision, most: int) -> npt.NDArray[np.int64] | None:
    """All that can be decided, if that is not more than `most`."""
    made: npt.NDArray[np.int64]
    match decision:
        case CategoricalDecision(values=values):
            made = np.arange(len(values))
        case LocationDecision(loops=loops):
            made = np.arange(INLINE, max(1, loops))
        case TileDecision(parts=parts, extent=extent):
            primes = factorize(extent)
            if math.prod(math.comb(power + parts - 1, power) for _, power in primes) > most:
                return None
            made = np.ones((1, parts), np.int64)
            for prime, power in primes:
                made = (made[:, None] * prime ** _compositions(power, parts)).reshape(-1, parts)
            made = made[made[:, -1] <= decision.most[-1]]
    return made if len(made) <= most else None


def moved_factors(
    tile: TileDecision, factors: npt.NDArray[np.int64], random: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Tiles of which a prime factor goes to another place, where that fits."""
    primes = [prime for prime, _ in factorize(tile.extent)]
    if not primes or tile.parts < 2:
        return factors
    rows = np.arange(len(factors))
    prime = np.array(primes)[random.integers(0, len(primes), len(rows))]
    taken, given = random.integers(0, tile.parts, (2, len(rows)))
    made = factors.copy()
    made[rows, given] *= prime
    fits = (factors[rows, taken] % prime == 0) & (taken != given)
    fits &= made[:, -1] <= tile.most[-1]
    made[rows, taken] //= prime
    return np.where(fits[:, None], made, factors)


def vector_at(decisions: Sequence[Decision], columns: Columns, row: int) -> list[Any]:
    """A row of a population as decisions of a trace."""
    found: list[Any] = []
    for decision in decisions:
        numbers = [int(columns[name][row]) for name in decision.names]
        if isinstance(decision, TileDecision):
            found.append(numbers)
        elif isinstance(decision, CategoricalDecision):
            found.append(decision.values.index(numbers[0]))
        else:
            found.append(numbers[0])
    return found


def _drawn(decision: Decision, count: int, random: np.random.Generator) -> Columns:
    match decision:
        case CategoricalDecision(values=values):
            return decision.columns(random.integers(0, len(values), count))
        case LocationDecision(loops=loops):
            return decision.columns(random.integers(INLINE, max(1, loops), count))
        case TileDecision():
            return decision.columns(_tiles(decision, count, random))


def _tiles(tile: TileDecision, count: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Factorisations, each prime spread evenly; what does not fit is drawn again."""
    made = _spread(tile, count, random)
    wrong = np.flatnonzero(made[:, -1] > tile.most[-1])
    for _ in range(_ROUNDS):
        made[wrong] = _spread(tile, len(wrong), random)
        wrong = wrong[made[wrong, -1] > tile.most[-1]]
    # All that is too much goes outwards: nothing else fits extents with large prime factors.
    made[wrong, 0] *= made[wrong, -1]
    made[wrong, -1] = 1
    return made


def _spread(tile: TileDecision, count: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    made = np.ones((count, tile.parts), np.int64)
    for prime, power in factorize(tile.extent):
        ways = _compositions(power, tile.parts)
        made *= prime ** ways[random.integers(0, len(ways), count)]
    return made


@functools.lru_cache(maxsize=256)
def _compositions(total: int, parts: int) -> npt.NDArray[np.int64]:
    """All ways to write `total` as a sum of `parts` numbers that are not negative."""
    bars = itertools.combinations(range(total + parts - 1), parts - 1)
    ends = [(-1, *each, total + parts - 1) for each in bars]
    made = np.array(ends, np.int64)
    return made[:, 1:] - made[:, :-1] - 1
