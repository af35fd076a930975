"""Features of whole populations: what the nests of a program do, by the parts that they play.

Programs of a sketch have different numbers of nests. The main contraction and the heaviest other
nest have columns of their own, all that is left is added up; so rows of all cases are equally long.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tilewright.algebra.batch_cases import Rows
from tilewright.algebra.batch_prior import NestCost
from tilewright.algebra.batch_programs import NOTHING

Floats = npt.NDArray[np.float64]
FACTS = (
    "seconds", "parallel", "starts", "l2_cycles", "l3_cycles", "memory_cycles", "speed_up",
    "lanes", "unrolled", "inside", "repeats", "share", "inner_bytes",
)  # fmt: skip
_OF_REST = FACTS[:6]
COLUMNS = (
    "seconds",
    *[f"main.{name}" for name in FACTS],
    *[f"second.{name}" for name in FACTS],
    *[f"rest.{name}" for name in _OF_REST],
)
_TICK = 1e-9  # seconds: the unit of times, so that their logarithms are above zero


def facts_of(cost: NestCost) -> Floats:
    """What features and prior take from nests: a row for each fact, a column for each nest."""
    numbers = cost.nest
    return np.vstack([
        cost.seconds, cost.parallel_extent, cost.start_seconds, cost.traffic, cost.speed_up,
        cost.lanes, cost.unrolled, cost.inside, cost.repeats, numbers.share,
        numbers.footprints[:, -1].sum(0),
    ])  # fmt: skip


def total_seconds(facts: Floats, regions: Rows) -> Floats:
    """Seconds of programs, from facts by places in a program by programs.

    Nests with the same number of a region run in one parallel loop, which is started once.
    """
    seconds, parallel, starts = (facts[FACTS.index(name)] for name in FACTS[:3])
    rows = np.arange(facts.shape[2])
    total = np.full(len(rows), 1e-7)
    started = np.zeros((len(rows), facts.shape[1] + 1), np.bool_)
    for place in range(facts.shape[1]):
        region = regions[:, place]
        begins = (parallel[place] > 1) & ~started[rows, region]
        total += seconds[place] + np.where(begins, starts[place], 0.0)
        started[rows, region] |= begins
    return total


def features_of(facts: Floats, ranked: Rows, seconds: Floats) -> Floats:
    """A row of logarithms for each program; the heaviest nest comes first."""
    width, rest = len(FACTS), len(_OF_REST)
    table = np.zeros((len(COLUMNS), len(seconds)))
    table[0] = seconds
    rows = np.arange(len(seconds))
    for number in range(ranked.shape[1]):
        place = ranked[:, number]
        is_there = place != NOTHING
        if number < 2:
            first = 1 + number * width
            table[first : first + width] = facts[:, place, rows] * is_there
        else:
            table[1 + 2 * width :] += facts[:rest, place, rows] * is_there
    table[[0, *_TIMES]] /= _TICK
    logarithms: Floats = np.log2(1.0 + table).T
    return logarithms


_TIMES = [n for n, name in enumerate(COLUMNS) if name.endswith((".seconds", ".starts"))]
