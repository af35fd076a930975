"""Quality of a cost model's rankings, from the predictions that a database keeps.

A prediction is a score: it orders the candidates of one round, for whom a model was asked at once.
The next round has another model (none was trained before the first), and other scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.database import Trial

LEAST = 3  # candidates whose order says something
_ONE_IN_TWENTY = 1.645  # standard errors that chance exceeds so often


def predicted_places(trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """(place in its round, speed relative to the best of all) of each trial that has both.

    The candidate that a round expects most of has place 1, the last one 0.
    """
    rounds = _rounds(trials)
    best = min((secs for each in rounds for _, secs in each), default=1.0)
    places = []
    for each in rounds:
        last = len(each) - 1
        ranks = _ranks([prediction for prediction, _ in each])
        places += [
            (rank / last if last else 1.0, best / secs)
            for rank, (_, secs) in zip(ranks, each, strict=True)
        ]
    return places


@dataclass(frozen=True)
class RankCorrelation:
    """How well predictions order candidates: 1 perfectly, 0 as chance does."""

    mean: float  # over all rounds
    freedom: int  # how many candidates could have been ordered otherwise

    @property
    def may_be_chance(self) -> bool:
        """True if chance would do as well in one case of twenty, or more often."""
        return self.mean <= _ONE_IN_TWENTY / math.sqrt(self.freedom)


def mean_rank_correlation(trials: Sequence[Trial]) -> RankCorrelation | None:
    """The rank correlations of all rounds, on average; large rounds count more."""
    total, weight, freedom = 0.0, 0, 0
    for each in _rounds(trials):
        found = rank_correlation([(prediction, -secs) for prediction, secs in each])
        if found is not None:
            total, weight = total + found * len(each), weight + len(each)
            freedom += len(each) - 1
    return RankCorrelation(total / weight, freedom) if weight else None


def _rounds(trials: Sequence[Trial]) -> list[list[tuple[float, float]]]:
    """The predictions and times of each round."""
    rounds: dict[tuple[int, str, int | None], list[tuple[float, float]]] = {}
    for trial in trials:
        if trial.prediction is not None and trial.mean_secs is not None:
            key = (trial.run, trial.task, trial.round)
            rounds.setdefault(key, []).append((trial.prediction, trial.mean_secs))
    return list(rounds.values())


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's coefficient: 1 if predictions order all candidates as their speeds do."""
    if len(pairs) < LEAST:
        return None
    first, second = (_ranks([pair[side] for pair in pairs]) for side in (0, 1))
    middle = (len(pairs) - 1) / 2
    spread = [sum((rank - middle) ** 2 for rank in ranks) for ranks in (first, second)]
    if not all(spread):
        return None
    both = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
    return float(both / (spread[0] * spread[1]) ** 0.5)


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 0; equal values share the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    return [float(rank) for rank in (ends - (counts + 1) / 2)[places]]
