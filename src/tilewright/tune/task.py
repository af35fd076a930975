"""`TaskRecord`: a task while it is tuned, with the counts of its trials and its current round."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tilewright.database import TaskRecords
from tilewright.errors import TuneError
from tilewright.ir import IRModule
from tilewright.measure.row_offsets import row_offsets_in
from tilewright.records import (
    BASELINE,
    PROGRAM_NOTES,
    BuilderResult,
    MeasureCandidate,
    RunnerResult,
)
from tilewright.schedule import Schedule
from tilewright.schedule.analysis import flop_of
from tilewright.search.measured import MeasuredResults
from tilewright.search.statistics import SearchStatistics
from tilewright.target import Target
from tilewright.tune.abilities import statistics_of
from tilewright.tune.context import TuneContext
from tilewright.tune.funnel import Funnel

FAILED_MS = 1e9  # the latency of a candidate that failed
# A gain smaller than this is noise: it does not keep a task from having reached its plateau.
REAL_GAIN = 0.01


@dataclass
class Round:
    """The candidates of a task that are measured together."""

    number: int = 0
    first_trial: int = 0  # the number of its first candidate
    predictions: Sequence[float | None] = ()
    baselines: Sequence[str] = ()  # the names of its candidates, if they are not the search's
    reused: frozenset[int] = frozenset()  # those whose measurement was known already
    results: Sequence[RunnerResult] = ()
    funnel: Funnel | None = None  # once it is complete


@dataclass
class TaskRecord:
    """One task, its weight in the whole, and the measurements of its candidates."""

    ctx: TuneContext
    task_weight: float = 1.0
    seed: int | None = None
    asked_seed: int | None = None  # of the user, where the task has one drawn from it
    is_terminated: bool = False
    is_searching: bool = False  # between `pre_tuning` and `post_tuning` of its strategy
    mod: IRModule = field(init=False)
    flop: float = field(init=False)
    row_offsets: Mapping[int, int] = field(init=False)  # arguments that rise to a number
    sketches: list[Schedule] = field(default_factory=list)
    round: Round = field(default_factory=Round)  # the last one
    notes: list[str] = field(default_factory=list)  # about the program itself
    records: TaskRecords | None = None  # where there is a database
    measured: MeasuredResults = field(default_factory=MeasuredResults)
    fingerprint: str = ""  # of the space and the strategy
    # The rest is saved, so that a later call goes on from it:
    search_state: Mapping[str, Any] = field(default_factory=dict)
    run: int | None = None  # in the history of the database
    elapsed: float = 0.0  # seconds since its run began, earlier calls counted in
    rounds: int = 0  # complete ones
    restored_count: int = 0  # candidates of an incomplete round that are counted already
    reused: int = 0  # trials whose measurement was known already
    latency_ms: list[float] = field(default_factory=list)
    best_history: list[float] = field(default_factory=list)  # ms, one entry a round
    failures: Counter[str] = field(default_factory=Counter)
    last_error: str | None = None
    counted: SearchStatistics = field(default_factory=SearchStatistics)  # in the funnel so far
    finished: str | None = None  # why the search had nothing more to propose
    rematched_at: int = 0  # trials after which the best were measured against each other

    def __post_init__(self) -> None:
        if self.ctx.mod is None:
            name = self.ctx.task_name
            raise TuneError(f"task {name!r} has no program (mod); give TuneContext one")
        self.mod = self.ctx.mod
        self.flop = flop_of(self.mod)
        self.row_offsets = row_offsets_in(self.mod)
        if self.seed is None:
            self.seed = self.ctx.rand_state

    @property
    def target(self) -> Target:
        """The target, which a task that is tuned has."""
        assert self.ctx.target is not None
        return self.ctx.target

    @property
    def trials(self) -> int:
        """Candidates measured so far, failed ones too."""
        return len(self.latency_ms)

    @property
    def runner_futures(self) -> None:
        """None: nothing is running when somebody may ask."""
        return None

    @property
    def build_error_count(self) -> int:
        """Candidates that did not compile."""
        return self.failures["build_error"]

    @property
    def run_error_count(self) -> int:
        """Candidates that compiled and failed."""
        return sum(self.failures.values()) - self.build_error_count

    @property
    def best_secs(self) -> float | None:
        """The best running time, if there is one."""
        best = min(self.latency_ms, default=FAILED_MS)
        return best / 1e3 if best < FAILED_MS else None

    @property
    def gflops(self) -> float | None:
        """The speed of the best candidate."""
        return None if self.best_secs is None else self.flop / self.best_secs / 1e9

    def note(self, notes: Iterable[str], logger: logging.Logger) -> None:
        """Tell the user once about the program."""
        for text in notes:
            if text not in self.notes:
                self.notes.append(text)
                logger.warning("%s: %s", self.ctx.task_name, text)

    def trials_since_gain(self) -> int:
        """How many trials went by without a real improvement."""
        best, position = FAILED_MS, 0
        for number, latency in enumerate(self.latency_ms):
            if latency < best * (1 - REAL_GAIN):
                best, position = latency, number + 1
        return self.trials - position

    def begin_round(
        self, predictions: Sequence[float | None], baselines: Sequence[str] = ()
    ) -> None:
        """Begin a round of candidates with these predictions, or of these baselines."""
        self.round = Round(self.rounds, self.trials - self.restored_count, predictions, baselines)

    def look_up(self, candidates: Sequence[MeasureCandidate]) -> list[RunnerResult | None]:
        """The results of those candidates of a round that were measured before."""
        found = [self.measured.find(candidate) for candidate in candidates]
        self.round.reused = frozenset(n for n, result in enumerate(found) if result is not None)
        return found

    def add_trials(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Count the results of a round, but for those that were counted already."""
        new = range(self.restored_count, len(results))
        for number in new:
            self.measured.add(candidates[number], results[number])
            self._count(results[number])
        self.reused += sum(number in self.round.reused for number in new)
        self.restored_count = len(results)
        self.round.results = results

    def end_round(self) -> None:
        """All candidates of a round are counted."""
        self.restored_count = 0
        self.rounds += 1
        self.best_history.append(min(self.latency_ms, default=FAILED_MS))

    def _count(self, result: RunnerResult) -> None:
        if result.failure is not None or not result.run_secs:
            self.failures[result.failure.value if result.failure else "run_error"] += 1
            self.last_error = result.error_msg
            self.latency_ms.append(FAILED_MS)
        else:
            self.latency_ms.append(median(result.run_secs) * 1e3)

    def correct_trial(self, trial: int, secs: Sequence[float]) -> None:
        """Replace the latency of a trial by that of a final; no seconds: it failed there."""
        if trial < self.trials:
            self.latency_ms[trial] = median(secs) * 1e3 if secs else FAILED_MS

    def new_drafts(self, sent: int) -> SearchStatistics:
        """The drafts since the last call; a strategy that does not count lost none of `sent`."""
        now = statistics_of(self.ctx.search_strategy)
        if now is None:
            return SearchStatistics(proposed=sent, legal=sent, sent=sent)
        new, self.counted = now.since(self.counted), now.copy()
        return new

    def extra_of(
        self, position: int, built: BuilderResult, result: RunnerResult
    ) -> dict[str, object]:
        """Everything that the record of a candidate of this round says beside its measurement."""
        last = self.round
        prediction = last.predictions[position] if position < len(last.predictions) else None
        return {
            "seed": self.seed,
            "round": last.number,
            "run": self.run,
            "task": self.ctx.task_name,
            "trial": last.first_trial + position,
            "prediction": None if prediction is None else float(prediction),
            "elapsed": self.elapsed,
            "built": built.error_msg is None,
            "stopped_early": result.stopped_early,
            PROGRAM_NOTES: list(self.notes) or None,
            BASELINE: last.baselines[position] if position < len(last.baselines) else None,
        }
