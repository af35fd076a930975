"""Features of whole populations: what the nests of a program do, by the parts that they play.

Programs of a sketch have different numbers of nests. The main contraction and the heaviest other
nest have columns of their own, all that is left is added up; so rows of all cases are equally long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.algebra.batch_prior import NestCost

Floats = npt.NDArray[np.float64]
_OF_NEST = (
    "seconds", "parallel", "starts", "l2_cycles", "l3_cycles", "memory_cycles", "speed_up",
    "lanes", "unrolled", "inside", "repeats", "share", "inner_bytes",
)  # fmt: skip
_OF_REST = _OF_NEST[:6]
COLUMNS = (
    "seconds",
    *[f"main.{name}" for name in _OF_NEST],
    *[f"second.{name}" for name in _OF_NEST],
    *[f"rest.{name}" for name in _OF_REST],
)
_TICK = 1e-9  # seconds: the unit of times, so that their logarithms are above zero


@dataclass(frozen=True, eq=False)
class NestFacts:
    """What features and prior take from a nest: a row for each name, a column a candidate."""

    table: Floats

    @staticmethod
    def of(cost: NestCost) -> NestFacts:
        """The facts of what a nest costs."""
        numbers = cost.nest
        table = np.vstack([
            cost.seconds, cost.parallel_extent, cost.start_seconds, cost.traffic, cost.speed_up,
            cost.lanes, cost.unrolled, cost.inside, cost.repeats, numbers.share,
            numbers.footprints[:, -1].sum(0),
        ])  # fmt: skip
        return NestFacts(table)

    @staticmethod
    def joined(parts: Sequence[NestFacts]) -> NestFacts:
        """The facts of several groups of candidates."""
        if len(parts) == 1:
            return parts[0]
        return NestFacts(np.concatenate([part.table for part in parts], axis=1))

    def at(self, columns: slice) -> NestFacts:
        """The facts of some candidates."""
        return NestFacts(self.table[:, columns])

    def _row(self, number: int) -> Floats:
        row: Floats = self.table[number]
        return row

    @property
    def seconds(self) -> Floats:
        return self._row(0)

    @property
    def parallel_extent(self) -> Floats:
        return self._row(1)

    @property
    def start_seconds(self) -> Floats:
        return self._row(2)


def features_of(ranked: Sequence[NestFacts], seconds: Floats) -> Floats:
    """A row of logarithms for each program; the heaviest nest comes first."""
    width, rest = len(_OF_NEST), len(_OF_REST)
    table = np.zeros((len(COLUMNS), len(seconds)))
    table[0] = seconds
    for number, fact in enumerate(ranked[:2]):
        table[1 + number * width : 1 + (number + 1) * width] = fact.table
    for fact in ranked[2:]:
        table[1 + 2 * width :] += fact.table[:rest]
    table[[0, *_TIMES]] /= _TICK
    rows: Floats = np.log2(1.0 + table).T
    return rows


_TIMES = [n for n, name in enumerate(COLUMNS) if name.endswith((".seconds", ".starts"))]
