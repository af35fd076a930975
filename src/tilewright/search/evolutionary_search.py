"""`EvolutionarySearch`: drafts evolve under the cost model; the best of them are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from tilewright.errors import TuneError
from tilewright.records import TuningRecord
from tilewright.schedule import Schedule
from tilewright.schedule.trace.random import RandomEngine
from tilewright.search.base import search_strategies
from tilewright.search.evolution import Evolution, pick_with_eps_greedy
from tilewright.search.replayer import Draft
from tilewright.search.task_search import TaskSearch, Tuning, restored, traces_as_json

_SCORES_A_LINE = 16
_ATTEMPTS_TO_FILL = 3  # for each place in a batch


@search_strategies.register("evolutionary-tvm")
@dataclass(kw_only=True, eq=False)
class EvolutionarySearch(TaskSearch):
    """Each round: the best measured drafts and random ones evolve; the best of all are proposed.

    The defaults are TVM's; they replay thousands of drafts a round. `frugal` is what our tuner
    uses. `carry_over_ratio`: which part of the next population are good drafts that this round
    found and did not measure.
    """

    kind = "evolutionary"

    population_size: int = 512
    init_measured_ratio: float = 0.2
    init_min_unmeasured: int = 50
    max_fail_count: int = 5
    genetic_num_iters: int = 4
    genetic_mutate_prob: float = 0.85
    genetic_max_fail_count: int = 10
    eps_greedy: float = 0.05
    carry_over_ratio: float = 0.0
    num_empty_iters_before_early_stop: int = 5

    def __post_init__(self) -> None:
        super().__init__()
        _check(self.settings())
        self._engine = RandomEngine(1)  # for everything but the random picks
        self._empty_iters = 0
        self._carried: list[Draft] = []  # good, not measured, from the round before
        self._library: dict[int, Draft] = {}  # measured drafts that need no replay

    @classmethod
    def frugal(cls, **settings: Any) -> EvolutionarySearch:
        """A search for replays that cost milliseconds: some hundred drafts a round."""
        chosen = {
            "population_size": 96,
            "init_min_unmeasured": 16,
            "genetic_num_iters": 2,
            "genetic_max_fail_count": 3,
            "carry_over_ratio": 0.4,
            **settings,
        }
        return cls(**chosen)

    def settings(self) -> dict[str, Any]:
        """What the search was made with."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def clone(self) -> EvolutionarySearch:
        return type(self)(**self.settings())

    def _begin(self, tuning: Tuning) -> None:
        missing = "database" if tuning.records is None else "cost model"
        if tuning.records is None or tuning.cost_model is None:
            raise TuneError(f"EvolutionarySearch needs a {missing}; give pre_tuning one")
        self._engine = self.random.fork()
        self._empty_iters = 0
        self._carried = []
        self._library = {}

    def _trials_of(self, tuning: Tuning, results: int) -> int:
        return results

    # --- a round --------------------------------------------------------------------------------

    def _propose(self, tuning: Tuning, count: int) -> list[Draft] | None:
        log = self.context.logger
        log.info("Generating candidates......")
        measured = self._measured(tuning)
        log.info("Picked top %d candidate(s) from database", len(measured))
        missing = self.population_size - len(measured) - len(self._carried)
        fresh = self._sample(tuning, missing)
        unmeasured = [*self._carried, *fresh]
        if len(unmeasured) < self.init_min_unmeasured:
            log.warning(
                "Cannot sample enough initial population, evolutionary search failed: "
                "%d draft(s) of at least %d",
                len(unmeasured),
                self.init_min_unmeasured,
            )
            return None
        log.info("Sampled %d candidate(s)", len(fresh))
        carry = int(self.population_size * self.carry_over_ratio)
        bests = self._evolve(tuning, [*measured, *unmeasured], count + carry)
        log.info("Got %d candidate(s) with evolutionary search", len(bests))
        picked = pick_with_eps_greedy(
            self.random, tuning.known, bests, fresh, count, self.eps_greedy
        )
        picked += self._fill_up(tuning, count - len(picked))
        log.info("Sending %d candidates(s) for measurement", len(picked))
        self._carried = [draft for draft in bests if draft not in tuning.known][:carry]
        self._library.update((draft.shash, draft) for draft in picked)
        self._empty_iters += not picked
        is_exhausted = self._empty_iters >= self.num_empty_iters_before_early_stop
        return None if not picked and is_exhausted else picked

    def _fill_up(self, tuning: Tuning, missing: int) -> list[Draft]:
        """New random drafts for a batch for which evolution found too few."""
        drafts: list[Draft] = []
        for _ in range(_ATTEMPTS_TO_FILL * missing):
            if len(drafts) == missing:
                break
            draft = self._random_draft(tuning)
            if draft is not None and draft not in tuning.known:
                tuning.known.add(draft)
                drafts.append(draft)
        return drafts

    def _measured(self, tuning: Tuning) -> list[Draft]:
        """The best drafts that were measured, in this run or an earlier one."""
        drafts: list[Draft] = []
        for record in self._best_records(tuning):
            shash = record.program_hash
            draft = None if shash is None else self._library.get(shash)
            # All decisions are taken: the seed decides nothing.
            draft = draft or tuning.replayer.replay(record.trace, seed=1)
            if draft is not None:
                drafts.append(draft)
        self._library = {draft.shash: draft for draft in drafts}
        return drafts

    def _best_records(self, tuning: Tuning) -> list[TuningRecord]:
        wanted = int(self.population_size * self.init_measured_ratio)
        if wanted == 0 or tuning.records is None:
            return []
        try:
            records = tuning.records.best(wanted)
        except Exception as error:
            counter = self.statistics.other_failures
            tuning.replayer.failed(counter, error, "database", tuning.records.source)
            return []
        # The program as it is has nothing to pass on.
        return [record for record in records if record.trace.has_steps()]

    # --- the parts of a round, for those who put one together themselves -------------------------

    def sample_init_population(self, num: int) -> list[Schedule]:
        """Random schedules of the space, from `num` attempts, as often as it takes to have enough.

        Enough are `init_min_unmeasured`; fewer come if `max_fail_count` times all attempts failed.
        """
        drafts = self._sample(self._running("sample_init_population"), num)
        return [draft.candidate.sch for draft in drafts]

    def evolve_with_cost_model(self, population: Sequence[Schedule], num: int) -> list[Schedule]:
        """The best schedules, at most `num`, that a population evolves into; best first."""
        tuning = self._running("evolve_with_cost_model")
        drafts = [Draft(sch, tuning.replayer.args_info) for sch in population]
        return [draft.candidate.sch for draft in self._evolve(tuning, drafts, num)]

    def _sample(self, tuning: Tuning, attempts: int) -> list[Draft]:
        """Random drafts of `attempts` attempts, and of as many again while there are too few."""
        carried, attempts = len(self._carried), max(attempts, 1)
        drafts: list[Draft] = []
        failed_rounds = 0
        while failed_rounds < self.max_fail_count:
            before = self.statistics.copy()
            made = [self._random_draft(tuning) for _ in range(attempts)]
            drafts += [draft for draft in made if draft is not None]
            failed_rounds += all(draft is None for draft in made)
            counts = self.statistics.since(before)
            summary = counts.summary(tuning.replayer.postprocs)
            self.context.logger.info("Sample-Init-Population summary:\n%s", summary)
            if len(drafts) + carried >= self.init_min_unmeasured:
                break
        return drafts

    def _random_draft(self, tuning: Tuning) -> Draft | None:
        sketch = tuning.sketches[self._engine.integer(0, len(tuning.sketches))]
        draft = tuning.replayer.draw(sketch, self._engine.fork_seed())
        self.statistics.duplicates += draft is not None and draft in tuning.known
        return draft

    def _evolve(self, tuning: Tuning, population: Sequence[Draft], keep: int) -> list[Draft]:
        evolution = Evolution(
            population_size=self.population_size,
            generations=self.genetic_num_iters,
            mutate_prob=self.genetic_mutate_prob,
            max_fail_count=self.genetic_max_fail_count,
            mutators=self.space.mutator_probs,
            replayer=tuning.replayer,
            known=tuning.known,
            score=partial(self._score, tuning, {}),
            random=self._engine,
        )
        bests = evolution.run(population, keep)
        self.context.logger.info(
            "Scores of the best %d candidates:%s", len(bests), _score_lines(bests)
        )
        return bests

    def _score(self, tuning: Tuning, known: dict[int, float], drafts: Sequence[Draft]) -> None:
        """Set the scores of drafts; the model is asked once a round for each program."""
        new = {draft.shash: draft for draft in drafts if draft.shash not in known}
        if new:
            known.update(zip(new, self._predict(tuning, list(new.values())), strict=True))
        for draft in drafts:
            draft.score = known[draft.shash]

    def _predict(self, tuning: Tuning, drafts: Sequence[Draft]) -> list[float]:
        model = tuning.cost_model
        assert model is not None
        try:
            found = model.predict(self.context, [draft.candidate for draft in drafts])
            scores = np.asarray(found, dtype=np.float64).reshape(len(drafts))
        except Exception as error:
            tuning.replayer.failed(self.statistics.other_failures, error, "cost model", model)
            return [0.0] * len(drafts)
        return [float(score) for score in np.nan_to_num(scores, nan=-np.inf)]

    # --- resuming -------------------------------------------------------------------------------

    def _more_state(self) -> dict[str, object]:
        return {
            "engine": self._engine.state,
            "empty_iters": self._empty_iters,
            "carried": traces_as_json(self._carried),
        }

    def _load_more_state(self, tuning: Tuning, state: Mapping[str, Any]) -> None:
        self._engine = RandomEngine(int(state["engine"]))
        self._empty_iters = int(state["empty_iters"])
        self._carried = restored(tuning.replayer, state["carried"])
        self._library = {draft.shash: draft for draft in tuning.pending}


def _score_lines(drafts: Sequence[Draft]) -> str:
    lines = []
    for begin in range(0, len(drafts), _SCORES_A_LINE):
        part = drafts[begin : begin + _SCORES_A_LINE]
        scores = "  ".join(f"{draft.score or 0.0:.4f}" for draft in part)
        lines.append(f"\n[{begin + 1} : {begin + len(part)}]:\t{scores}")
    return "".join(lines)


_SHARES = ("init_measured_ratio", "genetic_mutate_prob", "eps_greedy", "carry_over_ratio")
_POSITIVE = ("population_size", "max_fail_count", "num_empty_iters_before_early_stop")


def _check(settings: Mapping[str, float]) -> None:
    for name, value in settings.items():
        if name in _SHARES:
            if not 0.0 <= value <= 1.0:
                raise TuneError(f"{name} must be from 0 to 1, got {value}")
        elif value < (1 if name in _POSITIVE else 0):
            least = 1 if name in _POSITIVE else 0
            raise TuneError(f"{name} must be at least {least}, got {value}")


search_strategies.register("evolutionary")(EvolutionarySearch.frugal)
