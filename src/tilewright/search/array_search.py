"""`ArraySearch`: decision vectors are scored as arrays by the thousand, a batch is replayed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from typing_extensions import Self

from tilewright.algebra.evolution import ArrayEvolution, Ranking
from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.algebra.model import SpaceModel
from tilewright.algebra.scoring import BatchScorer
from tilewright.cost_model.boosters import HISTOGRAM, Trees
from tilewright.cost_model.gaussian_process import Belief, belief
from tilewright.cost_model.gbdt import GBDTConfig
from tilewright.cost_model.pack_sum import PackSum
from tilewright.cost_model.prior import AnalyticPrior, Machine
from tilewright.errors import TuneError
from tilewright.records import Candidates, RunnerResults, entry_function
from tilewright.schedule import Trace
from tilewright.search.base import search_strategies
from tilewright.search.replayer import Draft, Sketch
from tilewright.search.task_search import TaskSearch, Tuning
from tilewright.space.layout_free import has_bound_weights

_FEWEST_SAMPLES = 16  # that trees learn from
_POOL = 256  # of the vectors that are predicted to be fast, from which a batch is drawn
_CHANCES = 128  # of the other vectors, drawn into the same pool
_REMEMBERED = 128  # of the fastest that were measured, and of all others, as the batch is drawn
_MOST_NEW = 96  # structures that are interpreted for all sketches in a generation
_LEAST_NEW = 16  # for each of them
_MOST_STRUCTURES = 64  # of a sketch that is searched on arrays by default
_MEASURED_PARENTS = 64  # of a sketch, in the first generation
_EARLIER = 256  # records of earlier searches that are learned from
_REPLAYED = 4  # times as many candidates of sketches without algebra as are wanted
_TOLERANCE = 1e-6  # between the prior on arrays and that of a replay

Vector: TypeAlias = list[Any]


@dataclass(frozen=True)
class Choice:
    """A vector that is to be replayed, and what is known of it."""

    sketch: int
    vector: Vector
    features: list[float]
    prior: float
    predicted: float


@dataclass(frozen=True)
class MeasuredChoice:
    """A choice that was measured."""

    choice: Choice
    seconds: float

    @property
    def error(self) -> float:
        """By how much the prior was wrong."""
        return math.log2(self.seconds) - self.choice.prior


class MeasuredChoices(list[MeasuredChoice]):
    """All that was measured; trees learn from it again when it has grown by a fifth."""

    def __init__(self, known: Sequence[MeasuredChoice] = (), learned: int = 0) -> None:
        super().__init__(known)
        self.learned = 0
        self.trees: Trees | None = None
        if learned:
            self._learn(learned)

    def update(self) -> Trees | None:
        """What trees have learned so far."""
        if len(self) >= max(_FEWEST_SAMPLES, 1.2 * self.learned):
            self._learn(len(self))
        return self.trees

    def _learn(self, count: int) -> None:
        self.learned = count
        rows = [np.array([each.choice.features], np.float32) for each in self[:count]]
        data = PackSum(rows, np.array([each.error for each in self[:count]]), np.ones(count))
        config = GBDTConfig().booster_config(count, 1)
        self.trees = HISTOGRAM.train(data, config, lambda *_: True)

    def fastest(self, sketch: int) -> list[Vector]:
        """The vectors of a sketch that were fastest, the best first."""
        own = sorted((each for each in self if each.choice.sketch == sketch), key=_seconds)
        return [each.choice.vector for each in own[:_MEASURED_PARENTS]]

    def remembered(self) -> list[MeasuredChoice]:
        """The fastest, and some of all others."""
        own = sorted(self, key=_seconds)
        fastest, others = own[:_REMEMBERED], own[_REMEMBERED:]
        return fastest + others[:: max(1, -(-len(others) // _REMEMBERED))]


def _seconds(choice: MeasuredChoice) -> float:
    return choice.seconds


@search_strategies.register("arrays")
class ArraySearch(TaskSearch):
    """Evolves arrays of decisions of the sketches whose algebra is known.

    The prior ranks, and trees that learn from each batch what it gets wrong. Of other sketches, as
    many candidates as their share are replayed and ranked by the cost model; the log says why. A
    sketch whose replays are not what its algebra says is one of them from then on. With
    `all_sketches`, a search does not begin in which one has no algebra, or so many structures that
    interpreting them takes as long as replays do: it raises `NotInterpreted`. With `first_batch`,
    the first batches are small, and each has at most as many candidates as were measured before it.
    """

    kind = "arrays"

    def __init__(
        self,
        population_size: int = 1024,
        generations: int = 2,
        eps_greedy: float = 0.05,
        all_sketches: bool = False,
        first_batch: int | None = None,
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
        self.all_sketches = all_sketches
        self.first_batch = first_batch
        self._scorers: dict[int, BatchScorer] = {}  # by number of the sketch
        self._measured = MeasuredChoices()
        self._waiting: dict[int, Choice] = {}  # by hash of the program
        self._tried: set[str] = set()

    def settings(self) -> dict[str, Any]:
        """What the search was made with."""
        names = ("population_size", "generations", "eps_greedy", "all_sketches", "first_batch")
        return {name: getattr(self, name) for name in names}

    def clone(self) -> Self:
        return type(self)(**self.settings())

    def _begin(self, tuning: Tuning) -> None:
        self._measured, self._waiting, self._tried = MeasuredChoices(), {}, set()
        self._scorers = {}
        self._interpret(tuning.sketches, may_refuse=self.all_sketches)
        self._measured.extend(self._earlier_choices(tuning, self._scorers))

    def _take_more(self, tuning: Tuning, sketches: Sequence[Sketch]) -> None:
        self._interpret(sketches, may_refuse=False)
        more = {each.number for each in sketches} & self._scorers.keys()
        self._measured.extend(self._earlier_choices(tuning, more))

    def _interpret(self, sketches: Sequence[Sketch], may_refuse: bool) -> None:
        for sketch in sketches:
            try:
                self._scorers[sketch.number] = self._scorer(sketch)
            except NotInterpreted as why:
                if may_refuse:
                    raise
                text = "sketch %d is searched by replay: %s"
                self.context.logger.info(text, sketch.number, why)

    def _earlier_choices(
        self, tuning: Tuning, numbers: Collection[int]
    ) -> Iterator[MeasuredChoice]:
        """What the fastest records say whose traces are those of some sketches."""
        records = [] if tuning.records is None else tuning.records.earlier
        valid = sorted((each for each in records if each.run_secs), key=lambda each: each.mean_secs)
        read = [(each.trace.as_json(remove_postproc=True), each) for each in valid[:_EARLIER]]
        for number in numbers:
            scorer, sketch = self._scorers[number], tuning.sketches[number]
            steps = sketch.trace.as_json()[0]
            own = [(dict(decided), each) for (insts, decided), each in read if insts == steps]
            own = [(decided, each) for decided, each in own if decided.keys() == {*sketch.places}]
            if not own:
                continue
            vectors = [[decided[place] for place in sketch.places] for decided, _ in own]
            scores = scorer.score(scorer.model.columns(vectors))
            for row, (_, record) in enumerate(own):
                if np.isfinite(scores.prior[row]):
                    found = (number, vectors[row], scores.features[row].tolist())
                    choice = Choice(*found, float(scores.prior[row]), float(scores.prior[row]))
                    yield MeasuredChoice(choice, min(record.run_secs or ()))

    def _scorer(self, sketch: Sketch) -> BatchScorer:
        target = self.context.target
        if target is not None and not target.is_cpu:
            raise NotInterpreted("only the prior of CPUs is on arrays")
        model = SpaceModel(self.mod, sketch.trace, self.space.postprocs)
        structures = model.tree.most_cases
        if self.all_sketches and structures > _MOST_STRUCTURES:
            raise NotInterpreted(
                f"programs of sketch {sketch.number} have up to {structures} structures"
            )
        packed_before = has_bound_weights(entry_function(self.mod))
        return BatchScorer(model, Machine.of(target), packed_before)

    def _trials_of(self, tuning: Tuning, results: int) -> int:
        return results

    # --- asking ---------------------------------------------------------------------------------

    def _propose(self, tuning: Tuning, count: int) -> list[Draft] | None:
        if self.first_batch is not None:
            count = min(count, max(self.first_batch, len(self._measured)))
        random = np.random.default_rng(self.random.fork_seed())
        others = [each for each in tuning.sketches if each.number not in self._scorers]
        drafts = self._replayed_best(tuning, others, count * len(others) // len(tuning.sketches))
        rankings = self._rankings(random)
        by_chance = int((count - len(drafts)) * self.eps_greedy)
        drafts += self._made(tuning, self._drawn(rankings, random), count - len(drafts) - by_chance)
        drafts += self._made(tuning, self._any(rankings, random), count - len(drafts))
        drafts += self._replayed_best(tuning, others, count - len(drafts))
        return drafts or None

    def _rankings(self, random: np.random.Generator) -> dict[int, Ranking]:
        trees = self._measured.update()
        found: dict[int, Ranking] = {}
        for number, scorer in self._scorers.items():
            scorer.trees = trees
            most_new = max(_LEAST_NEW, _MOST_NEW // len(self._scorers))
            evolution = ArrayEvolution(scorer, self.population_size, self.generations, most_new)
            fastest = self._measured.fastest(number)
            start = scorer.model.columns(fastest) if fastest else None
            found[number] = evolution.run(random, start)
        return found

    def _drawn(
        self, rankings: Mapping[int, Ranking], random: np.random.Generator
    ) -> Iterator[Choice]:
        """The vector that is expected to be the fastest, then others that may be.

        A prior that is wrong is wrong about many vectors that look alike: times are drawn for all
        of a pool together, and the fastest of each draw is taken.
        """
        order = self._order(rankings)
        others = random.permutation(len(order))[:_CHANCES]
        places = itertools.chain(self._untried(rankings, order), (order[n] for n in others))
        pool = list(dict.fromkeys(places))
        if not pool:
            return
        expected = self._belief(rankings, pool)
        left = np.ones(len(pool), np.bool_)
        draws = itertools.islice(expected.draws(random), len(pool) - 1)
        for times in itertools.chain([expected.mean], draws):
            fastest = int(np.where(left, times, np.inf).argmin())
            left[fastest] = False
            number, row = pool[fastest]
            yield _choice(rankings, number, row, float(expected.mean[fastest]))
        for place in order:
            yield _choice(rankings, *place)

    def _untried(
        self, rankings: Mapping[int, Ranking], order: list[tuple[int, int]]
    ) -> Iterator[tuple[int, int]]:
        """The first vectors of an order that were not proposed before."""
        new = (
            (number, row)
            for number, row in order
            if _key(number, rankings[number].vector(row)) not in self._tried
        )
        return itertools.islice(new, _POOL)

    def _belief(self, rankings: Mapping[int, Ranking], pool: list[tuple[int, int]]) -> Belief:
        """What is believed of a pool of vectors, from all that was measured."""
        known = self._measured.remembered()
        numbers = [each.choice.sketch for each in known] + [number for number, _ in pool]
        features = [each.choice.features for each in known]
        features += [rankings[number].features[row] for number, row in pool]
        priors = [each.choice.prior for each in known]
        priors += [rankings[number].prior[row] for number, row in pool]
        times = np.log2([each.seconds for each in known])
        kinds = np.array(numbers, np.int64)
        return belief(np.array(features, np.float64), kinds, np.array(priors, np.float64), times)

    def _order(self, rankings: Mapping[int, Ranking]) -> list[tuple[int, int]]:
        """Sketches and rows by predicted time; those that look like others come last."""
        rows = [
            (ranking.predicted[row], number, row)
            for number, ranking in rankings.items()
            for row in ranking.best(len(ranking.predicted))
        ]
        looks: set[bytes] = set()
        first: list[tuple[int, int]] = []
        alike: list[tuple[int, int]] = []
        for _, number, row in sorted(rows):
            look = rankings[number].features[row].tobytes()
            (alike if look in looks else first).append((number, row))
            looks.add(look)
        return first + alike

    def _any(
        self, rankings: Mapping[int, Ranking], random: np.random.Generator
    ) -> Iterator[Choice]:
        """Vectors in no order."""
        rows = [
            (number, int(row))
            for number, ranking in rankings.items()
            for row in np.flatnonzero(np.isfinite(ranking.predicted))
        ]
        for place in random.permutation(len(rows)):
            yield _choice(rankings, *rows[place])

    def _made(self, tuning: Tuning, choices: Iterator[Choice], count: int) -> list[Draft]:
        """The first candidates that nobody has measured."""
        return list(itertools.islice(self._new(tuning, choices), max(0, count)))

    def _new(self, tuning: Tuning, choices: Iterator[Choice]) -> Iterator[Draft]:
        for choice in choices:
            key = _key(choice.sketch, choice.vector)
            if key in self._tried or choice.sketch not in self._scorers:
                continue
            self._tried.add(key)
            draft = self._replayed(tuning, choice)
            if draft is None or not self._agrees(tuning, draft, choice) or draft in tuning.known:
                continue
            tuning.known.add(draft)
            self._waiting[draft.shash] = choice
            draft.score = 2.0**-choice.predicted
            if tuning.chosen is not None:
                tuning.chosen(draft.candidate)
            yield draft

    def _replayed(self, tuning: Tuning, choice: Choice) -> Draft | None:
        sketch = tuning.sketches[choice.sketch]
        insts = sketch.trace.insts
        chosen = {insts[n]: each for n, each in zip(sketch.places, choice.vector, strict=True)}
        draft = tuning.replayer.replay(Trace(insts, chosen), self.random.fork_seed())
        if draft is not None:
            draft.sketch = sketch
        return draft

    def _agrees(self, tuning: Tuning, draft: Draft, choice: Choice) -> bool:
        """Whether a replay is what its algebra says; if not, the sketch is not trusted any more."""
        (replayed,) = AnalyticPrior().score(self.context, [draft.candidate])
        if abs(replayed - choice.prior) <= _TOLERANCE:
            return True
        del self._scorers[choice.sketch]
        self.statistics.other_failures["algebra: not what a replay says"] += 1
        self.context.logger.warning(
            "sketch %d is searched by replay from now on: with decisions %s its algebra says %.3g "
            "seconds, and a replay %.3g",
            choice.sketch,
            choice.vector,
            2.0**choice.prior,
            2.0**replayed,
        )
        return False

    def _replayed_best(self, tuning: Tuning, sketches: Sequence[Sketch], count: int) -> list[Draft]:
        """New candidates of sketches without algebra: the best of some that are replayed."""
        found: dict[int, Draft] = {}
        for _ in range(_REPLAYED * count if sketches else 0):
            sketch = sketches[self.random.integer(0, len(sketches))]
            draft = tuning.replayer.draw(sketch, self.random.fork_seed())
            if draft is not None and draft not in tuning.known:
                found[draft.shash] = draft
        drafts = list(found.values())
        if tuning.cost_model is not None and drafts:
            scores = tuning.cost_model.predict(self.context, [each.candidate for each in drafts])
            for draft, score in zip(drafts, scores, strict=True):
                draft.score = float(score)
            drafts.sort(key=lambda draft: -(draft.score or 0.0))
        for draft in drafts[:count]:
            tuning.known.add(draft)
        return drafts[:count]

    # --- telling --------------------------------------------------------------------------------

    def notify_runner_results(self, measure_candidates: Candidates, results: RunnerResults) -> None:
        for candidate, result in zip(measure_candidates, results, strict=True):
            choice = self._waiting.pop(candidate.program_hash, None)
            if choice is not None and result.run_secs:
                self._measured.append(MeasuredChoice(choice, min(result.run_secs)))
        super().notify_runner_results(measure_candidates, results)

    def _more_state(self) -> dict[str, object]:
        return {
            "measured": [[dict(vars(each.choice)), float(each.seconds)] for each in self._measured],
            "learned": self._measured.learned,
            "waiting": [[str(key), dict(vars(each))] for key, each in self._waiting.items()],
            "tried": sorted(self._tried),
            # Structures are interpreted a few at a time: the same ones have to be known again.
            "trusted": [[n, each.model.tree.ways] for n, each in self._scorers.items()],
        }

    def _load_more_state(self, tuning: Tuning, state: Mapping[str, Any]) -> None:
        measured = [
            MeasuredChoice(Choice(**choice), seconds) for choice, seconds in state["measured"]
        ]
        self._measured = MeasuredChoices(measured, state["learned"])
        self._waiting = {int(key): Choice(**choice) for key, choice in state["waiting"]}
        self._tried = set(state["tried"])
        scorers, self._scorers = self._scorers, {}
        for number, ways in state["trusted"]:
            scorers[number].model.tree.go(ways)
            self._scorers[number] = scorers[number]


def _key(sketch: int, vector: Vector) -> str:
    return f"{sketch}:{vector}"


def _choice(
    rankings: Mapping[int, Ranking], number: int, row: int, predicted: float | None = None
) -> Choice:
    ranking = rankings[number]
    return Choice(
        number,
        ranking.vector(row),
        ranking.features[row].tolist(),
        float(ranking.prior[row]),
        float(ranking.predicted[row]) if predicted is None else predicted,
    )
