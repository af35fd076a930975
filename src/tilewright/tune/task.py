"""What the tuner knows of a task while it tunes it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tilewright.database import Database
from tilewright.errors import TuneError
from tilewright.measure.row_offsets import row_offsets_in
from tilewright.records import (
    BASELINE,
    CANDIDATE_HASH,
    PROGRAM_NOTES,
    BuilderResult,
    MeasureCandidate,
    RunnerResult,
    candidate_hash,
)
from tilewright.schedule import Schedule
from tilewright.schedule.analysis import flop_of
from tilewright.search.measured import for_same_machine
from tilewright.search.statistics import SearchStatistics
from tilewright.tune.context import TuneContext
from tilewright.tune.funnel import Funnel
from tilewright.tune.resume.measured import KnownResults

FAILED_MS = 1e9  # the latency of a candidate that failed
# A gain smaller than this is noise: it does not keep a task from having reached its plateau.
REAL_GAIN = 0.01


@dataclass
class TaskRecord:
    """One task, its weight in the whole, and what was measured of it."""

    ctx: TuneContext
    task_weight: float = 1.0
    seed: int | None = None
    asked_seed: int | None = None  # what the user gave, where the task has one drawn from it
    run: int | None = None
    flop: float = field(init=False)
    row_offsets: Mapping[int, int] = field(init=False)  # arguments that rise to a number
    sketches: list[Schedule] = field(default_factory=list)
    is_terminated: bool = False
    rounds: int = 0  # complete ones
    reused: int = 0  # trials whose measurement was known already
    latency_ms: list[float] = field(default_factory=list)
    best_history: list[float] = field(default_factory=list)  # ms, one entry a round
    failures: Counter[str] = field(default_factory=Counter)
    known: KnownResults = field(default_factory=KnownResults)
    is_searching: bool = False  # between `pre_tuning` and `post_tuning` of its strategy
    # The round that is going on:
    round: int = 0  # its number
    first_trial: int = 0  # the number of its first candidate
    begun: int = 0  # how many of its candidates were counted by an earlier call
    reused_now: frozenset[int] = frozenset()
    predictions: Sequence[float | None] = ()
    baselines: Sequence[str] = ()  # what its candidates are, if they are not the search's
    funnel: Funnel | None = None  # once it is complete
    runner_results: Sequence[RunnerResult] = ()  # of what was measured last
    elapsed: float = 0.0  # seconds since its run began, earlier calls counted in
    counted: SearchStatistics = field(default_factory=SearchStatistics)  # in the funnel so far
    last_error: str | None = None
    notes: list[str] = field(default_factory=list)  # what to know of the program itself
    # What an earlier call left behind, and what it must have in common with this one:
    setting: str = ""
    search_state: Mapping[str, Any] = field(default_factory=dict)
    finished: str | None = None  # why the search had nothing more to propose
    settled: int = 0  # trials after which the best were measured against each other

    def __post_init__(self) -> None:
        name = self.ctx.task_name
        if self.ctx.mod is None:
            raise TuneError(f"task {name!r} has no program (mod); give TuneContext one")
        self.flop = flop_of(self.ctx.mod)
        self.row_offsets = row_offsets_in(self.ctx.mod)
        if self.seed is None:
            self.seed = self.ctx.rand_state

    @property
    def trials(self) -> int:
        """Candidates measured so far, failed ones too."""
        return len(self.latency_ms)

    @property
    def runner_futures(self) -> None:
        """What is running now: nothing when somebody may ask."""
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
        """Say once what its user should know of the program."""
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

    def learn_known(self, database: Database) -> None:
        """Remember what earlier runs measured of this task, so that nothing is measured twice."""
        assert self.ctx.mod is not None
        if not database.has_workload(self.ctx.mod):
            return
        workload = database.commit_workload(self.ctx.mod)
        for record in database.get_tuning_records_of(workload):
            if for_same_machine(record, self.ctx.target):
                self.known.add_record(record)

    def begin_round(
        self, predictions: Sequence[float | None], baselines: Sequence[str] = ()
    ) -> None:
        """A round begins: its candidates have these predictions, or are these baselines."""
        self.round, self.first_trial = self.rounds, self.trials - self.begun
        self.predictions = predictions
        self.baselines = baselines

    def look_up(self, candidates: Sequence[MeasureCandidate]) -> list[RunnerResult | None]:
        """What is known of the candidates of a round."""
        known = [self.known.find(candidate) for candidate in candidates]
        self.reused_now = frozenset(n for n, result in enumerate(known) if result is not None)
        return known

    def add_round(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Count a whole round."""
        self.add_trials(candidates, results)
        self.end_round()

    def add_trials(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Count what was measured of a round, but for those that were counted already."""
        new = range(self.begun, len(results))
        for number in new:
            self.known.add(candidates[number], results[number])
            self._count(results[number])
        self.reused += sum(number in self.reused_now for number in new)
        self.begun = len(results)

    def end_round(self) -> None:
        """All candidates of a round are counted."""
        self.begun = 0
        self.rounds += 1
        self.best_history.append(min(self.latency_ms, default=FAILED_MS))

    def _count(self, result: RunnerResult) -> None:
        if result.failure is not None or not result.run_secs:
            self.failures[result.failure.value if result.failure else "run_error"] += 1
            self.last_error = result.error_msg
            self.latency_ms.append(FAILED_MS)
        else:
            self.latency_ms.append(median(result.run_secs) * 1e3)

    def extra_of(
        self, position: int, candidate: MeasureCandidate, built: BuilderResult, result: RunnerResult
    ) -> dict[str, Any]:
        """What the record of a candidate of this round says beside its measurement."""
        prediction = self.predictions[position] if position < len(self.predictions) else None
        extra = {
            CANDIDATE_HASH: candidate_hash(candidate),
            "protocol": result.protocol or None,
            "seed": self.seed,
            "round": self.round,
            "run": self.run,
            "task": self.ctx.task_name,
            "trial": self.first_trial + position,
            "prediction": None if prediction is None else float(prediction),
            "elapsed": self.elapsed,
            "built": built.error_msg is None,
            "checked": result.checked,
            "stopped_early": result.stopped_early,
            PROGRAM_NOTES: list(self.notes) or None,
            BASELINE: self.baselines[position] if position < len(self.baselines) else None,
        }
        return {key: value for key, value in extra.items() if value is not None}
