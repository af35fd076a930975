"""Evolution on arrays of decisions: no candidate is made on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.algebra.decisions import Columns
from tilewright.algebra.population import random_population
from tilewright.algebra.scoring import BatchScorer

Rows = npt.NDArray[np.int64]
_MUTATED = 0.15  # of the decisions of a child are drawn anew
_PARENTS = 4  # of so many vectors, one becomes a parent


@dataclass(frozen=True, eq=False)
class Ranking:
    """Different decision vectors of a sketch, and what is predicted for them."""

    columns: Columns
    predicted: npt.NDArray[np.float64]  # infinite for what is not legal, or not known
    features: npt.NDArray[np.float64]
    prior: npt.NDArray[np.float64]

    def best(self, count: int) -> list[int]:
        """The rows with the shortest predicted times, the best first."""
        order = np.argsort(self.predicted, kind="stable")[:count]
        return [int(row) for row in order if np.isfinite(self.predicted[row])]


def evolve(
    scorer: BatchScorer, size: int, generations: int, random: np.random.Generator
) -> Ranking:
    """The vectors of the last generation, with the best of those before."""
    ranking = _ranked(scorer, random_population(scorer.model.decisions, size, random))
    for _ in range(generations):
        parents = np.array(ranking.best(max(2, size // _PARENTS)), np.int64)
        if not len(parents):
            return ranking
        children = _children(scorer, ranking.columns, parents, size, random)
        both = {
            name: np.concatenate([ranking.columns[name][parents], column])
            for name, column in children.items()
        }
        ranking = _ranked(scorer, both)
    return ranking


def _ranked(scorer: BatchScorer, columns: Columns) -> Ranking:
    rows = _different(columns)
    kept = {name: column[rows] for name, column in columns.items()}
    scores = scorer.score(kept)
    known = scores.legal & np.isfinite(scores.predicted)
    predicted = np.where(known, scores.predicted, np.inf)
    return Ranking(kept, predicted, scores.features, scores.prior)


def _different(columns: Columns) -> Rows:
    """The first row of each vector: vectors are compared by a hash of 64 bits."""
    count = max((len(column) for column in columns.values()), default=1)
    hashes = np.zeros(count, np.uint64)
    for column in columns.values():
        # The multiplier of a common linear congruential generator.
        hashes = hashes * np.uint64(6364136223846793005) + column.astype(np.uint64) + np.uint64(1)
    return np.unique(hashes, return_index=True)[1]


def _children(
    scorer: BatchScorer,
    columns: Columns,
    parents: Rows,
    count: int,
    random: np.random.Generator,
) -> Columns:
    """Each decision comes from one of two parents, or is drawn anew."""
    first, second = parents[random.integers(0, len(parents), (2, count))]
    fresh = random_population(scorer.model.decisions, count, random)
    made: Columns = {}
    for decision in scorer.model.decisions:
        from_first = random.random(count) < 0.5
        anew = random.random(count) < _MUTATED
        for name in decision.names:
            inherited = np.where(from_first, columns[name][first], columns[name][second])
            made[name] = np.where(anew, fresh[name], inherited)
    return made
