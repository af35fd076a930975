"""Scores of whole populations of a sketch: features, prior and boosted trees, on arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.algebra.batch_cases import NOT_REACHED, Rows
from tilewright.algebra.batch_features import COLUMNS, FACTS, facts_of, features_of, total_seconds
from tilewright.algebra.batch_prior import NestCost
from tilewright.algebra.batch_programs import NOTHING, Programs, ProgramTable
from tilewright.algebra.decisions import Columns, rows_in
from tilewright.algebra.evaluation import chunks
from tilewright.algebra.legality import Verdicts, verdicts_on
from tilewright.algebra.model import SpaceModel, StructureCase, Uncovered
from tilewright.cost_model.boosters import Trees
from tilewright.cost_model.prior import Machine

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Scores:
    """What is known of each row of a population; of what is not legal, nothing else."""

    features: Floats
    prior: Floats  # the logarithm (base 2) of seconds; not a number where nothing is known
    predicted: Floats  # the same, with what trees have learned
    legal: npt.NDArray[np.bool_]  # what post-processors would accept
    to_replay: Mapping[int, str]  # rows that are not covered, and why


class BatchScorer:
    """Scores candidates of one sketch without making them."""

    def __init__(
        self,
        model: SpaceModel,
        machine: Machine,
        packed_before: bool = False,
        trees: Trees | None = None,
    ) -> None:
        self.model = model
        self.machine = machine
        self.trees = trees
        self._programs = ProgramTable(model.tree, packed_before)

    def score(self, columns: Columns, most_new: int | None = None) -> Scores:
        """The scores of a population, in its order.

        At most `most_new` new structures are interpreted, if given; rows of others stay unknown.
        """
        last = None if most_new is None else len(self.model.tree.nodes) + most_new
        parts = []
        for chunk in chunks(rows_in(columns)):
            left = None if last is None else last - len(self.model.tree.nodes)
            part = {name: column[chunk] for name, column in columns.items()}
            parts.append(self._chunk(part, self.model.tree.numbers(part, left), chunk.start))
        features, prior, legal, to_replay = zip(*parts, strict=True)
        joined, priors = np.concatenate(features), np.concatenate(prior)
        return Scores(
            joined,
            priors,
            self._corrected(joined, priors),
            np.concatenate(legal),
            {row: why for part in to_replay for row, why in part.items()},
        )

    def _chunk(
        self, columns: Columns, cases: Rows, first: int
    ) -> tuple[Floats, Floats, Masks, dict[int, str]]:
        verdicts = self._verdicts(columns, cases)
        to_replay = {row + first: why for row, why in verdicts.to_replay.items()}
        features = np.full((len(cases), len(COLUMNS)), np.nan)
        prior = np.full(len(cases), np.nan)
        legal = np.flatnonzero(verdicts.legal)
        nests = self._programs.at(cases[legal]).nests
        self.model.nests.ask_for(nests[nests != NOTHING])
        for piece in chunks(len(legal), self.model.nests.rows_at_once):
            rows = legal[piece]
            part = {name: column[rows] for name, column in columns.items()}
            features[rows], prior[rows] = self._looked_at(part, self._programs.at(cases[rows]))
        return features, prior, verdicts.legal, to_replay

    def _looked_at(self, columns: Columns, programs: Programs) -> tuple[Floats, Floats]:
        """Features and prior of legal candidates."""
        facts = self._facts(columns, programs.nests)
        seconds = total_seconds(facts, programs.regions)
        return features_of(facts, programs.ranked, seconds), np.log2(seconds)

    def _verdicts(self, columns: Columns, cases: Rows) -> Verdicts:
        """What is not checked is legal."""
        asked = []
        for number in np.unique(cases):
            case = self.model.tree.nodes[number]
            if isinstance(case, Uncovered) or (
                isinstance(case, StructureCase) and case.interpretation.checks
            ):
                asked.append((case, np.flatnonzero(cases == number)))
        verdicts = verdicts_on(asked, columns)
        others = cases != NOT_REACHED
        for _, rows in asked:
            others[rows] = False
        verdicts.legal[others] = True
        return verdicts

    def _facts(self, columns: Columns, nests: Rows) -> Floats:
        """Facts by places in a program by candidates; nests that are laid out alike go together."""
        known = self.model.nests
        values = known.values(columns, nests)
        facts = np.zeros((len(FACTS), nests.shape[1], nests.shape[0]))
        rows, places = np.nonzero(nests != NOTHING)
        for group, chosen, numbers in known.by_group(nests[rows, places]):
            columns_of_nests = group.columns(values, numbers, rows[chosen])
            found = facts_of(NestCost(columns_of_nests, self.machine))
            facts[:, places[chosen], rows[chosen]] = found
        return facts

    def _corrected(self, features: Floats, prior: Floats) -> Floats:
        if self.trees is None:
            return prior
        return prior + self.trees.predict(features.astype(np.float32))
