"""`ArraySearch`: decision vectors are scored as arrays by the thousand, a batch is replayed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from tilewright.algebra.evolution import Ranking, evolve
from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.algebra.model import SpaceModel
from tilewright.algebra.population import vector_at
from tilewright.algebra.scoring import BatchScorer
from tilewright.cost_model.boosters import HISTOGRAM, Trees
from tilewright.cost_model.gbdt import GBDTConfig
from tilewright.cost_model.pack_sum import PackSum
from tilewright.cost_model.prior import Machine
from tilewright.errors import TuneError
from tilewright.records import Candidates, RunnerResults
from tilewright.schedule import Trace
from tilewright.search.base import search_strategies
from tilewright.search.replayer import Draft, Sketch
from tilewright.search.task_search import TaskSearch, Tuning

_FEWEST_SAMPLES = 16  # until then the prior ranks alone
_SPARE = 4  # times as many vectors as are wanted, since some programs are the same


@dataclass(frozen=True)
class _Choice:
    """A vector that may be replayed."""

    predicted: float
    sketch: Sketch
    vector: list[Any]
    features: list[float]
    prior: float


@dataclass
class _Lessons:
    """Features of measured candidates, and by how much the prior was wrong."""

    features: list[list[float]] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)

    def trees(self) -> Trees | None:
        if len(self.errors) < _FEWEST_SAMPLES:
            return None
        rows = [np.array([row], np.float32) for row in self.features]
        data = PackSum(rows, np.array(self.errors), np.ones(len(rows)))
        config = GBDTConfig().booster_config(len(rows), 1)
        return HISTOGRAM.make().train(data, config, lambda *_: True)


@search_strategies.register("arrays")
class ArraySearch(TaskSearch):
    """Evolves arrays of decisions of the sketches whose algebra is known.

    Other sketches are drawn from at random, as many as their share; the log says why. The prior
    ranks, and trees that learn from each batch what it gets wrong.
    """

    kind = "arrays"

    def __init__(
        self, population_size: int = 2048, generations: int = 3, eps_greedy: float = 0.1
    ) -> None:
        super().__init__()
        if population_size < 2 or generations < 0 or not 0.0 <= eps_greedy <= 1.0:
            raise TuneError(
                "ArraySearch needs a population of at least 2, generations from 0 on and eps_greedy"
                f" from 0 to 1, got {population_size}, {generations} and {eps_greedy}"
            )
        self.population_size = population_size
        self.generations = generations
        self.eps_greedy = eps_greedy
        self._scorers: list[tuple[Sketch, BatchScorer]] = []
        self._others: list[Sketch] = []
        self._lessons = _Lessons()
        self._chosen: dict[int, _Choice] = {}

    def clone(self) -> Self:
        return type(self)(self.population_size, self.generations, self.eps_greedy)

    def _begin(self, tuning: Tuning) -> None:
        self._scorers, self._others = [], []
        self._lessons, self._chosen = _Lessons(), {}
        for sketch in tuning.sketches:
            try:
                self._scorers.append((sketch, self._scorer(sketch)))
            except NotInterpreted as why:
                self._others.append(sketch)
                text = "sketch %d is searched by replay: %s"
                self.context.logger.info(text, sketch.number, why)

    def _scorer(self, sketch: Sketch) -> BatchScorer:
        target = self.context.target
        if target is not None and not target.is_cpu:
            raise NotInterpreted("only the prior of CPUs is on arrays")
        model = SpaceModel(self.mod, sketch.trace, self.space.postprocs)
        return BatchScorer(model, Machine.of(target))

    # --- asking ---------------------------------------------------------------------------------

    def _propose(self, tuning: Tuning, count: int) -> list[Draft] | None:
        random = np.random.default_rng(self.random.fork_seed())
        sketches = len(self._scorers) + len(self._others)
        by_chance = max(count * len(self._others) / sketches, count * self.eps_greedy)
        drafts = self._best(tuning, count - int(by_chance), random)
        drafts += self._drawn(tuning, count - len(drafts))
        return drafts or None

    def _best(self, tuning: Tuning, count: int, random: np.random.Generator) -> list[Draft]:
        """New candidates that are predicted to be the fastest."""
        drafts: list[Draft] = []
        choices = [] if count < 1 else self._choices(count * _SPARE, random)
        for choice in choices:
            draft = self._replayed(tuning, choice)
            if draft is not None and draft not in tuning.known:
                tuning.known.add(draft)
                self._chosen[draft.shash] = choice
                draft.score = 2.0**-choice.predicted
                drafts.append(draft)
            if len(drafts) == count:
                break
        return drafts

    def _choices(self, count: int, random: np.random.Generator) -> Sequence[_Choice]:
        trees = self._lessons.trees()
        found: list[_Choice] = []
        for sketch, scorer in self._scorers:
            learned = replace(scorer, trees=trees)
            ranking = evolve(learned, self.population_size, self.generations, random)
            decisions = scorer.model.decisions
            for row in ranking.best(count):
                found.append(
                    _choice(sketch, ranking, row, vector_at(decisions, ranking.columns, row))
                )
        return sorted(found, key=lambda choice: choice.predicted)

    def _replayed(self, tuning: Tuning, choice: _Choice) -> Draft | None:
        insts = choice.sketch.trace.insts
        places = choice.sketch.places
        chosen = {insts[at]: each for at, each in zip(places, choice.vector, strict=True)}
        draft = tuning.replayer.replay(Trace(insts, chosen), self.random.fork_seed())
        if draft is not None:
            draft.sketch = choice.sketch
        return draft

    def _drawn(self, tuning: Tuning, count: int) -> list[Draft]:
        """New candidates by chance, of sketches that are not covered if there are any."""
        sketches = self._others or tuning.sketches
        drafts: list[Draft] = []
        for _ in range(100 + 4 * count):
            if len(drafts) >= count:
                break
            sketch = sketches[self.random.integer(0, len(sketches))]
            draft = tuning.replayer.draw(sketch, self.random.fork_seed())
            if draft is not None and draft not in tuning.known:
                tuning.known.add(draft)
                drafts.append(draft)
        return drafts

    # --- telling --------------------------------------------------------------------------------

    def notify_runner_results(self, measure_candidates: Candidates, results: RunnerResults) -> None:
        for candidate, result in zip(measure_candidates, results, strict=True):
            choice = self._chosen.pop(candidate.program_hash, None)
            if choice is not None and result.run_secs:
                self._lessons.features.append(choice.features)
                self._lessons.errors.append(math.log2(min(result.run_secs)) - choice.prior)
        super().notify_runner_results(measure_candidates, results)

    def _more_state(self) -> dict[str, object]:
        return {"features": self._lessons.features, "errors": self._lessons.errors}

    def _load_more_state(self, tuning: Tuning, state: Mapping[str, Any]) -> None:
        self._lessons = _Lessons(list(state["features"]), list(state["errors"]))


def _choice(sketch: Sketch, ranking: Ranking, row: int, vector: list[Any]) -> _Choice:
    features: npt.NDArray[np.float64] = ranking.features[row]
    predicted, prior = float(ranking.predicted[row]), float(ranking.prior[row])
    return _Choice(predicted, sketch, vector, [float(each) for each in features], prior)
