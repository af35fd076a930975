"""Evolution on arrays of decisions: no candidate is made on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.algebra.decisions import Columns, Decision, LocationDecision, TileDecision, rows_in
from tilewright.algebra.population import (
    every_vector,
    moved_factors,
    random_population,
    vector_at,
)
from tilewright.algebra.scoring import BatchScorer

Rows = npt.NDArray[np.int64]
_DRAWN_ANEW = 0.08  # of the decisions of a child
_MOVED = 0.15  # of its tiles give a factor to another place
_PARENTS = 4  # vectors of a generation for each parent


@dataclass(frozen=True, eq=False)
class Ranking:
    """Different decision vectors of a sketch, and what is predicted for them."""

    decisions: tuple[Decision, ...]
    columns: Columns
    predicted: npt.NDArray[np.float64]  # infinite for what is not legal, or not known
    features: npt.NDArray[np.float64]
    prior: npt.NDArray[np.float64]

    def best(self, count: int) -> list[int]:
        """The rows with the shortest predicted times, the best first."""
        order = np.argsort(self.predicted, kind="stable")[:count]
        return [int(row) for row in order if np.isfinite(self.predicted[row])]

    def vector(self, row: int) -> list[Any]:
        """A row as decisions of a trace."""
        return vector_at(self.decisions, self.columns, row)


@dataclass(frozen=True, eq=False)
class ArrayEvolution:
    """How vectors of one sketch evolve.

    At most `most_new` structures of programs are interpreted in each generation: that takes as long
    as replays do. Vectors whose structure is not known then take locations from others.
    """

    scorer: BatchScorer
    size: int
    generations: int
    most_new: int | None = None

    def run(self, random: np.random.Generator, start: Columns | None = None) -> Ranking:
        """The last generation, with the best of those before; of a small space, all vectors."""
        everything = every_vector(self._decisions, self.size)
        if everything is not None:
            return self._ranked(everything)
        ranking = self._first(random, start)
        for _ in range(self.generations):
            parents = np.array(ranking.best(max(2, self.size // _PARENTS)), np.int64)
            if not len(parents):
                break
            kept = _at(ranking.columns, parents)
            ranking = self._ranked(_joined(kept, self._children(kept, random)))
        return ranking

    @property
    def _decisions(self) -> tuple[Decision, ...]:
        return self.scorer.model.decisions

    def _first(self, random: np.random.Generator, start: Columns | None) -> Ranking:
        columns = random_population(self._decisions, self.size, random)
        if start is not None:
            columns = _joined(start, columns)
        ranking = self._ranked(columns)
        known = np.flatnonzero(np.isfinite(ranking.predicted))
        if not len(known) or len(known) == len(ranking.predicted):
            return ranking
        unknown = np.flatnonzero(~np.isfinite(ranking.predicted))
        like = known[random.integers(0, len(known), len(unknown))]
        moved = {name: column.copy() for name, column in ranking.columns.items()}
        for decision in self._decisions:
            if isinstance(decision, LocationDecision):
                moved[decision.name][unknown] = moved[decision.name][like]
        return self._ranked(moved)

    def _ranked(self, columns: Columns) -> Ranking:
        kept = _at(columns, _different(columns))
        scores = self.scorer.score(kept, self.most_new)
        known = scores.legal & np.isfinite(scores.predicted)
        predicted = np.where(known, scores.predicted, np.inf)
        return Ranking(self._decisions, kept, predicted, scores.features, scores.prior)

    def _children(self, parents: Columns, random: np.random.Generator) -> Columns:
        """Each decision comes from one of two parents, is changed a little, or is drawn anew."""
        count = self.size
        first, second = random.integers(0, rows_in(parents), (2, count))
        fresh = random_population(self._decisions, count, random)
        made: Columns = {}
        for decision in self._decisions:
            from_first = random.random(count) < 0.5
            rows = np.where(from_first, first, second)
            inherited = np.stack([parents[name][rows] for name in decision.names], axis=1)
            if isinstance(decision, TileDecision):
                changes = random.random(count) < _MOVED
                inherited[changes] = moved_factors(decision, inherited[changes], random)
            anew = random.random(count) < _DRAWN_ANEW
            for part, name in enumerate(decision.names):
                made[name] = np.where(anew, fresh[name], inherited[:, part])
        return made


def _at(columns: Columns, rows: Rows) -> Columns:
    return {name: column[rows] for name, column in columns.items()}


def _joined(first: Columns, second: Columns) -> Columns:
    return {name: np.concatenate([column, second[name]]) for name, column in first.items()}


def _different(columns: Columns) -> Rows:
    """The first row of each vector: vectors are compared by a hash of 64 bits."""
    hashes = np.zeros(rows_in(columns), np.uint64)
    for column in columns.values():
        # The multiplier of a common linear congruential generator.
        hashes = hashes * np.uint64(6364136223846793005) + column.astype(np.uint64) + np.uint64(1)
    return np.unique(hashes, return_index=True)[1]
