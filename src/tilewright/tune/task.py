"""`TaskRecord`: a task while it is tuned, with the counts of its trials and its current round."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
from tilewright.schedule.analysis import flop_of
from tilewright.search.measured import MeasuredResults
from tilewright.target import Target
from tilewright.tune.context import TuneContext
from tilewright.tune.funnel import Funnel
from tilewright.tune.search_progress import SearchProgress
from tilewright.tune.trials import TrialCounts


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
    mod: IRModule = field(init=False)
    flop: float = field(init=False)
    row_offsets: Mapping[int, int] = field(init=False)  # arguments that rise to a number
    counts: TrialCounts = field(default_factory=TrialCounts)
    search: SearchProgress = field(default_factory=SearchProgress)
    round: Round = field(default_factory=Round)  # the last one
    notes: list[str] = field(default_factory=list)  # about the program itself
    records: TaskRecords | None = None  # where there is a database
    measured: MeasuredResults = field(default_factory=MeasuredResults)
    fingerprint: str = ""  # of the space and the strategy, as they were at first
    run: int | None = None  # in the history of the database
    elapsed: float = 0.0  # seconds since its run began, earlier calls counted in

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
        return len(self.counts.latency_ms)

    @property
    def runner_futures(self) -> None:
        """None: nothing is running when somebody may ask."""
        return None

    @property
    def build_error_count(self) -> int:
        """Candidates that did not compile."""
        return self.counts.failures["build_error"]

    @property
    def run_error_count(self) -> int:
        """Candidates that compiled and failed."""
        return sum(self.counts.failures.values()) - self.build_error_count

    @property
    def best_secs(self) -> float | None:
        """The best running time, if there is one."""
        return self.counts.best_secs

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

    def read_records(self, records: TaskRecords, fingerprint: str) -> None:
        """Take over what is known of the program from earlier runs; it is read once."""
        self.records, self.measured = records, MeasuredResults(records.earlier)
        self.fingerprint = fingerprint

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `as_json` wrote; nothing is changed if that cannot be read."""
        counts, search = TrialCounts.from_json(state), SearchProgress.from_json(state)
        self.run, self.elapsed = state["run"], float(state["elapsed"])
        self.counts, self.search = counts, search

    def as_json(self) -> dict[str, object]:
        """Where the task stands, as plain values."""
        return {
            "run": self.run,
            "elapsed": self.elapsed,
            **self.counts.as_json(),
            **self.search.as_json(self.ctx.search_strategy),
        }

    def join_run(self, run: int) -> None:
        """The task belongs to a run of the history."""
        self.run = run

    def begin_round(
        self, predictions: Sequence[float | None], baselines: Sequence[str] = ()
    ) -> None:
        """Begin a round of candidates with these predictions, or of these baselines."""
        self.round = Round(
            self.counts.rounds, self.trials - self.counts.restored, predictions, baselines
        )

    def look_up(self, candidates: Sequence[MeasureCandidate]) -> list[RunnerResult | None]:
        """The results of those candidates of a round that were measured before."""
        found = [self.measured.find(candidate) for candidate in candidates]
        self.round.reused = frozenset(n for n, result in enumerate(found) if result is not None)
        return found

    def add_trials(
        self,
        candidates: Sequence[MeasureCandidate],
        results: Sequence[RunnerResult],
        elapsed: float,
    ) -> None:
        """Count the results of a round, but for those that were counted already."""
        for number in range(self.counts.restored, len(results)):
            self.measured.add(candidates[number], results[number])
        self.counts.add(results, self.round.reused)
        self.round.results = results
        self.elapsed = elapsed

    def end_round(self, funnel: Funnel | None = None) -> None:
        """All candidates of a round are counted."""
        self.counts.end_round()
        self.round.funnel = funnel

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
