"""Scores of whole populations of a sketch: features, prior and boosted trees, on arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.algebra.batch_features import COLUMNS, NestFacts, features_of
from tilewright.algebra.batch_prior import NestCost, total_seconds
from tilewright.algebra.decisions import Columns
from tilewright.algebra.evaluation import chunks
from tilewright.algebra.legality import verdicts_on
from tilewright.algebra.model import Rows, SpaceModel, StructureCase
from tilewright.algebra.nest_columns import NestProgram
from tilewright.cost_model.boosters import Trees
from tilewright.cost_model.prior import Machine

Floats = npt.NDArray[np.float64]
_Parts: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # regions of nests, and their ranks


@dataclass(frozen=True)
class Scores:
    """What is known of each row of a population."""

    features: Floats
    prior: Floats  # the logarithm (base 2) of seconds; not a number where nothing is known
    predicted: Floats  # the same, with what trees have learned
    legal: npt.NDArray[np.bool_]  # what post-processors would accept
    to_replay: Mapping[int, str]  # rows that are not covered, and why


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
        features = np.full((count, len(COLUMNS)), np.nan)
        prior = np.full(count, np.nan)
        legal = np.zeros(count, np.bool_)
        to_replay: dict[int, str] = {}
        for chunk in chunks(count):
            part = {name: column[chunk] for name, column in columns.items()}
            found = list(self.model.cases(part))
            verdicts = verdicts_on(found, part)
            legal[chunk] = verdicts.legal
            to_replay.update({row + chunk.start: why for row, why in verdicts.to_replay.items()})
            cases = [(case, rows) for case, rows in found if isinstance(case, StructureCase)]
            seconds, features[chunk] = self._chunk(part, cases, chunk.stop - chunk.start)
            prior[chunk] = np.log2(seconds)
        return Scores(features, prior, self._corrected(features, prior), legal, to_replay)

    def _chunk(
        self, columns: Columns, cases: Sequence[tuple[StructureCase, Rows]], count: int
    ) -> tuple[Floats, Floats]:
        """Seconds and features of some rows; each nest is looked at once, for all its cases."""
        places: dict[NestProgram, list[Rows]] = {}
        for case, rows in cases:
            for nest in case.nests:
                places.setdefault(nest, []).append(rows)
        known = {nest: self._facts(nest, columns, parts) for nest, parts in places.items()}
        alike: dict[_Parts, list[tuple[Rows, list[NestFacts]]]] = {}
        for case, rows in cases:
            facts = [next(known[nest]) for nest in case.nests]
            kept = self._kept(case)
            # Programs whose nests play the same parts are put together at once.
            ranked = tuple(sorted(range(len(kept)), key=lambda n: -case.nests[kept[n]].work))
            parts = (tuple(case.regions[n] for n in kept), ranked)
            alike.setdefault(parts, []).append((rows, [facts[n] for n in kept]))
        seconds = np.full(count, np.nan)
        features = np.full((count, len(COLUMNS)), np.nan)
        for (regions, ranked), group in alike.items():
            rows = np.concatenate([own for own, _ in group])
            joined = [NestFacts.joined(each) for each in zip(*[f for _, f in group], strict=True)]
            seconds[rows] = total_seconds(list(zip(regions, joined, strict=True)))
            features[rows] = features_of([joined[n] for n in ranked], seconds[rows])
        return seconds, features

    def _kept(self, case: StructureCase) -> list[int]:
        """The nests that run each time."""
        return [
            number
            for number, nest in enumerate(case.nests)
            if not (nest.nest.packs_weights and self.packed_before)
        ]

    def _facts(
        self, nest: NestProgram, columns: Columns, parts: Sequence[Rows]
    ) -> Iterator[NestFacts]:
        """What is known of a nest, for each of the groups of rows that have it."""
        rows = np.concatenate(parts)
        numbers = nest({name: columns[name][rows] for name in nest.inputs}, len(rows))
        facts = NestFacts.of(NestCost(numbers, self.machine))
        first = 0
        for part in parts:
            yield facts.at(slice(first, first + len(part)))
            first += len(part)

    def _corrected(self, features: Floats, prior: Floats) -> Floats:
        if self.trees is None:
            return prior
        return prior + self.trees.predict(features.astype(np.float32))
