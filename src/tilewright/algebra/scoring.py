"""Scores of whole populations of a sketch: features, prior and boosted trees, on arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tilewright.algebra.batch_features import COLUMNS, NestFacts, features_of
from tilewright.algebra.batch_prior import NestCost, total_seconds
from tilewright.algebra.decisions import Columns
from tilewright.algebra.evaluation import chunks
from tilewright.algebra.model import SpaceModel
from tilewright.algebra.nest_columns import NestProgram
from tilewright.cost_model.prior import Machine

Floats = npt.NDArray[np.float64]


class Trees(Protocol):
    """Predicts from rows of features what the prior gets wrong, in powers of two."""

    def predict(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """A number for each row."""


@dataclass(frozen=True)
class Scores:
    """What is known of each row of a population."""

    features: Floats
    prior: Floats  # the logarithm (base 2) of seconds
    predicted: Floats  # the same, with what trees have learned


@dataclass(frozen=True, eq=False)
class BatchScorer:
    """Scores candidates of one sketch without making them."""

    model: SpaceModel
    machine: Machine
    packed_before: bool = False
    trees: Trees | None = None

    def score(self, columns: Columns) -> Scores:
        """The scores of a population, in its order."""
        count = max((len(column) for column in columns.values()), default=1)
        features = np.zeros((count, len(COLUMNS)))
        prior = np.zeros(count)
        for chunk in chunks(count):
            part = {name: column[chunk] for name, column in columns.items()}
            seconds, features[chunk] = self._chunk(part)
            prior[chunk] = np.log2(seconds)
        return Scores(features, prior, self._corrected(features, prior))

    def _chunk(self, columns: Columns) -> tuple[Floats, Floats]:
        """Seconds and features of some rows; each nest is looked at once, for all its cases."""
        cases = list(self.model.cases(columns))
        places: dict[NestProgram, list[npt.NDArray[np.int64]]] = {}
        for case, rows in cases:
            for nest in case.nests:
                places.setdefault(nest, []).append(rows)
        known = {nest: self._facts(nest, columns, parts) for nest, parts in places.items()}
        count = sum(len(rows) for _, rows in cases)
        seconds = np.empty(count)
        features = np.empty((count, len(COLUMNS)))
        for case, rows in cases:
            facts = [next(known[nest]) for nest in case.nests]
            kept = [
                (region, fact)
                for nest, region, fact in zip(case.nests, case.regions, facts, strict=True)
                if not (nest.nest.packs_weights and self.packed_before)
            ]
            seconds[rows] = total_seconds(kept)
            features[rows] = features_of([fact for _, fact in kept], seconds[rows])
        return seconds, features

    def _facts(
        self, nest: NestProgram, columns: Columns, parts: Sequence[npt.NDArray[np.int64]]
    ) -> Iterator[NestFacts]:
        """What is known of a nest, for each of the groups of rows that have it."""
        rows = np.concatenate(parts)
        numbers = nest({name: columns[name][rows] for name in nest.inputs}, len(rows))
        facts = NestFacts.of(NestCost(numbers, self.machine), nest.nest)
        first = 0
        for part in parts:
            yield facts.at(slice(first, first + len(part)))
            first += len(part)

    def _corrected(self, features: Floats, prior: Floats) -> Floats:
        if self.trees is None:
            return prior
        return prior + self.trees.predict(features.astype(np.float32))


def best_of(scores: Scores, count: int) -> Sequence[int]:
    """The rows with the shortest predicted times, the best first."""
    count = min(count, len(scores.predicted))
    chosen = np.argpartition(scores.predicted, count - 1)[:count] if count else np.arange(0)
    return [int(row) for row in chosen[np.argsort(scores.predicted[chosen])]]
