"""`TaskSearch`: the part that our strategies share, from counting trials to resuming."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tilewright.cost_model.base import CostModel
from tilewright.errors import TuneError
from tilewright.ir import IRModule
from tilewright.records import Candidates, MeasureCandidate, RunnerResults, args_info_of
from tilewright.schedule import Schedule
from tilewright.schedule.trace.random import RandomEngine
from tilewright.search.base import Chosen, DatabaseLike, MeasuredRecords, SearchStrategy
from tilewright.search.measured import KnownCandidates, MeasuredResults
from tilewright.search.replayer import Draft, Replayer, SearchStatistics, Sketch
from tilewright.space.base import SpaceGenerator, TaskContext, fork_rand_state

_STATE_VERSION = 1
# A search with more trials goes on among wider sketches after `NARROW_TRIALS`, or as soon as there
# is nothing else left; one with fewer has enough to choose from.
NARROW_TRIALS = 64


@dataclass
class Tuning:
    """A search between `pre_tuning` and `post_tuning`."""

    max_trials: int
    trials_per_iter: int
    sketches: list[Sketch]
    replayer: Replayer
    known: KnownCandidates
    records: MeasuredRecords | None
    cost_model: CostModel | None
    trials: int = 0  # how many were measured
    pending: list[Draft] = field(default_factory=list)  # proposed, not measured yet
    reissue: bool = False  # the pending ones were restored: propose them again
    chosen: Chosen | None = None  # told about candidates before all of a round are chosen
    is_wide: bool = False  # the wider sketches of the space are among its sketches


class TaskSearch(SearchStrategy):
    """A strategy for one task. Subclasses say which drafts come next (`_propose`)."""

    kind: ClassVar[str]
    # Once the strategy is initialised:
    context: TaskContext
    mod: IRModule
    space: SpaceGenerator

    def __init__(self) -> None:
        self.random = RandomEngine(1)
        self.statistics = SearchStatistics()
        self._tuning: Tuning | None = None
        self._handed: MeasuredRecords | None = None

    # --- what subclasses decide -----------------------------------------------------------------

    @abstractmethod
    def _propose(self, tuning: Tuning, count: int) -> list[Draft] | None:
        """At most `count` drafts that are not known; None: there is nothing more to propose."""

    def _begin(self, tuning: Tuning) -> None:
        """Prepare a search."""

    def _take_more(self, tuning: Tuning, sketches: Sequence[Sketch]) -> None:
        """Search among further sketches, too; they are those of `tuning` already."""

    def _trials_of(self, tuning: Tuning, results: int) -> int:
        """How many trials a batch with `results` results counts for."""
        return tuning.trials_per_iter

    def _more_state(self) -> dict[str, object]:
        """What else must be kept."""
        return {}

    def _load_more_state(self, tuning: Tuning, state: Mapping[str, object]) -> None:
        """Take that back."""

    # --- the contract ---------------------------------------------------------------------------

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        name = type(self).__name__
        if context.mod is None:
            raise TuneError(f"{name} needs a program; give TuneContext a mod")
        if context.space_generator is None:
            raise TuneError(f"{name} needs a search space; give TuneContext a space_generator")
        self.context, self.mod, self.space = context, context.mod, context.space_generator
        self.random = RandomEngine(fork_rand_state(context))
        self.statistics = SearchStatistics()
        self._tuning = None

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: DatabaseLike | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        self._check_can_begin(max_trials, num_trials_per_iter, design_spaces)
        context, mod = self.context, self.mod
        records, self._handed = self._handed, None
        if records is None and database is not None:
            records = database.task_records(mod, context.target)
        earlier = MeasuredResults(() if records is None else records.earlier)
        tuning = Tuning(
            max_trials=max_trials,
            trials_per_iter=num_trials_per_iter,
            sketches=[Sketch(*numbered) for numbered in enumerate(design_spaces)],
            replayer=Replayer(
                mod,
                args_info_of(mod),
                self.space.postprocs,
                self.statistics,
                context.logger,
                context.failures,
            ),
            known=KnownCandidates(earlier.by_hash, earlier.by_trace),
            records=records,
            cost_model=cost_model,
        )
        self._begin(tuning)
        self._tuning = tuning

    def take_records(self, records: MeasuredRecords) -> None:
        """Use records that were read already, instead of those of the next `pre_tuning`."""
        self._handed = records

    def _check_can_begin(
        self, max_trials: int, num_trials_per_iter: int, design_spaces: Sequence[Schedule]
    ) -> None:
        name = type(self).__name__
        if not hasattr(self, "space"):
            raise TuneError(f"{name} was not initialised; call _initialize_with_tune_context first")
        if self._tuning is not None:
            raise TuneError(f"{name}: pre_tuning was called twice without post_tuning in between")
        if max_trials < 1 or num_trials_per_iter < 1:
            raise TuneError(
                "max_trials and num_trials_per_iter must be at least 1, "
                f"got {max_trials} and {num_trials_per_iter}"
            )
        if not design_spaces:
            raise TuneError(f"{name}: the search space has no sketch to start from")

    def post_tuning(self) -> None:
        self._tuning = None

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        tuning = self._running("generate_measure_candidates")
        if tuning.reissue:
            tuning.reissue = False
        elif tuning.trials >= tuning.max_trials:
            return None
        else:
            count = min(tuning.trials_per_iter, tuning.max_trials - tuning.trials)
            if tuning.trials >= NARROW_TRIALS:
                self._widen(tuning)
            drafts = self._propose(tuning, count)
            if drafts is None and self._widen(tuning):
                drafts = self._propose(tuning, count)
            if drafts is None:
                return None
            self.statistics.sent += len(drafts)
            tuning.pending = drafts
        return [draft.candidate for draft in tuning.pending]

    def _widen(self, tuning: Tuning) -> bool:
        """Take in the wider sketches of the space, once; whether there are any."""
        if tuning.is_wide or tuning.max_trials <= NARROW_TRIALS:
            return False
        tuning.is_wide = True
        first = len(tuning.sketches)
        wider = self.space.generate_wider_space(self.mod)
        more = [Sketch(*numbered) for numbered in enumerate(wider, first)]
        self.context.logger.info("after %d trial(s): %d wider sketch(es)", tuning.trials, len(more))
        tuning.sketches += more
        self._take_more(tuning, more)
        return bool(more)

    def choose_candidates(self, chosen: Chosen) -> list[MeasureCandidate] | None:
        tuning = self._running("choose_candidates")
        tuning.chosen = chosen
        try:
            return self.generate_measure_candidates()
        finally:
            tuning.chosen = None

    def notify_runner_results(self, measure_candidates: Candidates, results: RunnerResults) -> None:
        tuning = self._running("notify_runner_results")
        tuning.trials += self._trials_of(tuning, len(results))
        tuning.pending = []

    def notify_known(self, candidates: Candidates) -> None:
        tuning = self._running("notify_known")
        hashes = {candidate.program_hash for candidate in candidates}
        tuning.known.hashes |= hashes
        tuning.pending = [draft for draft in tuning.pending if draft.shash not in hashes]

    def _running(self, method: str) -> Tuning:
        if self._tuning is None:
            raise TuneError(f"{type(self).__name__}: call pre_tuning before {method}")
        return self._tuning

    @property
    def predictions(self) -> list[float | None]:
        """What the model says of the candidates proposed last, in their order."""
        return [draft.score for draft in self._running("predictions").pending]

    # --- resuming -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, object]:
        tuning = self._running("state_dict")
        return {
            "strategy": self.kind,
            "version": _STATE_VERSION,
            "trials": tuning.trials,
            "is_wide": tuning.is_wide,
            "random": self.random.state,
            "known": tuning.known.as_json(),
            "pending": traces_as_json(tuning.pending),
            "statistics": self.statistics.as_json(),
            **self._more_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        tuning = self._running("load_state_dict")
        if not state:
            return
        found = state.get("strategy"), state.get("version")
        if found != (self.kind, _STATE_VERSION):
            raise TuneError(
                f"the saved state is of strategy {found[0]!r}, version {found[1]!r}; this is "
                f"{self.kind!r}, version {_STATE_VERSION}; start a new search, it will not measure "
                "again what the database has"
            )
        tuning.trials = int(state["trials"])
        self.random = RandomEngine(int(state["random"]))
        tuning.known.include(state["known"])
        if state.get("is_wide"):
            self._widen(tuning)
        tuning.pending = restored(tuning.replayer, state["pending"])
        tuning.reissue = bool(tuning.pending)
        self._load_more_state(tuning, state)
        self.statistics = SearchStatistics.from_json(state["statistics"])
        tuning.replayer.statistics = self.statistics


def traces_as_json(drafts: Sequence[Draft]) -> list[object]:
    """The traces of drafts as plain values."""
    return [draft.trace.as_json(remove_postproc=True) for draft in drafts]


def restored(replayer: Replayer, traces: Sequence[object]) -> list[Draft]:
    """Rebuilds drafts from `traces_as_json`; what no longer works is left out."""
    found = (replayer.replay_json(trace) for trace in traces)
    return [draft for draft in found if draft is not None]
