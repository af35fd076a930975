"""`TaskRecord`: a task while it is tuned, with the counts of its trials and its current round."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import msgspec

from tilewright.database import Database, TaskRecords
from tilewright.errors import TuneError
from tilewright.ir import IRModule
from tilewright.measure.row_offsets import row_offsets_in
from tilewright.records import (
    BASELINE,
    PROGRAM_NOTES,
    BuilderResult,
    Candidates,
    FailureKind,
    MeasureCandidate,
    RunnerResult,
    RunnerResults,
)
from tilewright.schedule import Schedule
from tilewright.schedule.analysis import flop_of
from tilewright.search.base import SearchStrategy
from tilewright.search.measured import MeasuredResults
from tilewright.search.replayer import SearchStatistics
from tilewright.target import Target
from tilewright.tune.abilities import Counting
from tilewright.tune.context import TuneContext

PROPOSED, LEGAL, BUILT, RAN, CORRECT = "proposed", "legal", "built", "ran", "correct"
NOT_CHOSEN = "others promised more"
NOT_CHECKED = "too slow to be checked"
_WRONG = (FailureKind.WRONG_RESULT, FailureKind.IMPOSSIBLE_SPEED)


@dataclass
class FunnelStage:
    """A stage, how many reached it, and why the others did not."""

    name: str
    count: int = 0
    losses: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        reasons = ", ".join(f"{number} {why}" for why, number in self.losses.most_common())
        return f"{self.count} {self.name}" + (f" ({reasons})" if reasons else "")


@dataclass
class Funnel:
    """The stages of a round, in order."""

    stages: list[FunnelStage]

    def __str__(self) -> str:
        return " -> ".join(map(str, self.stages))


def funnel_of(task: TaskRecord, built: Sequence[BuilderResult], results: RunnerResults) -> Funnel:
    """The funnel of the round that was measured last."""
    drafts = task.search.new_drafts(task.ctx.search_strategy, len(results))
    proposed, legal = FunnelStage(PROPOSED, drafts.proposed), FunnelStage(LEGAL, drafts.legal)
    legal.losses.update(drafts.reasons())
    legal.losses.pop("duplicate", None)
    compiled, ran, correct = FunnelStage(BUILT), FunnelStage(RAN), FunnelStage(CORRECT)
    not_chosen = drafts.legal - drafts.duplicates - len(results)
    compiled.losses.update({"duplicate": drafts.duplicates, NOT_CHOSEN: max(0, not_chosen)})
    is_checking = any(result.checked for result in results)
    for built_one, result in zip(built, results, strict=True):
        _place(built_one, result, is_checking, (compiled, ran, correct))
    stages = [proposed, legal, compiled, ran, correct]
    for stage in stages:
        stage.losses += Counter()  # forgets those that count nothing
    return Funnel(stages)


def _place(
    built: BuilderResult,
    result: RunnerResult,
    is_checking: bool,
    stages: tuple[FunnelStage, FunnelStage, FunnelStage],
) -> None:
    """Count a candidate in the stages it reached, and in the one it did not reach."""
    compiled, ran, correct = stages
    failure = result.failure or (None if result.run_secs else FailureKind.RUN_ERROR)
    if built.error_msg is not None or failure is FailureKind.BUILD_ERROR:
        compiled.losses[(failure or FailureKind.BUILD_ERROR).value] += 1
        return
    compiled.count += 1
    if failure is not None and failure not in _WRONG:
        ran.losses[failure.value] += 1
        return
    ran.count += 1
    if failure is not None:
        correct.losses[failure.value] += 1
    elif is_checking and not result.checked:
        correct.losses[NOT_CHECKED] += 1
    else:
        correct.count += 1


def keep_funnel(funnel: Funnel, task: TaskRecord, database: Database) -> None:
    """Write the counts of a round into the history of its run."""
    if task.run is None:
        return
    for stage in funnel.stages:
        place = (task.run, task.ctx.task_name, task.round.number, stage.name)
        database.history.set_count(*place, stage.count)
        for reason, number in stage.losses.items():
            database.history.set_count(*place, number, reason)


FAILED_MS = 1e9  # the latency of a candidate that failed
# A gain smaller than this is noise: it does not keep a task from having reached its plateau.
REAL_GAIN = 0.01


class TrialCounts(msgspec.Struct, rename={"restored": "begun", "rematched_at": "settled"}):
    """Counts of trials, failed ones too; saved, so that a later call goes on from them."""

    rounds: int = 0  # complete ones
    restored: int = 0  # candidates of an incomplete round that are counted already
    rematched_at: int = 0  # trials after which the best were measured against each other
    latency_ms: list[float] = []
    best_history: list[float] = []  # ms, one entry a round
    failures: dict[str, int] = {}
    last_error: str | None = None
    reused: int = 0  # trials whose measurement was known already

    @property
    def best_secs(self) -> float | None:
        """The best running time, if there is one."""
        best = min(self.latency_ms, default=FAILED_MS)
        return best / 1e3 if best < FAILED_MS else None

    @property
    def since_gain(self) -> int:
        """How many trials went by without a real improvement."""
        best, position = FAILED_MS, 0
        for number, latency in enumerate(self.latency_ms):
            if latency < best * (1 - REAL_GAIN):
                best, position = latency, number + 1
        return len(self.latency_ms) - position

    def add(self, results: RunnerResults, reused: frozenset[int]) -> None:
        """Count the results of a round, but for those that were counted already."""
        new = range(self.restored, len(results))
        for number in new:
            self._count(results[number])
        self.reused += sum(number in reused for number in new)
        self.restored = len(results)

    def _count(self, result: RunnerResult) -> None:
        if result.failure is not None or not result.run_secs:
            cause = result.failure.value if result.failure else "run_error"
            self.failures[cause] = self.failures.get(cause, 0) + 1
            self.last_error = result.error_msg
            self.latency_ms.append(FAILED_MS)
        else:
            self.latency_ms.append(median(result.run_secs) * 1e3)

    def end_round(self) -> None:
        """All candidates of a round are counted."""
        self.restored = 0
        self.rounds += 1
        self.best_history.append(min(self.latency_ms, default=FAILED_MS))

    def correct(self, trial: int, secs: Sequence[float]) -> None:
        """Replace the latency of a trial by that of a final; no seconds: it failed there."""
        if trial < len(self.latency_ms):
            self.latency_ms[trial] = median(secs) * 1e3 if secs else FAILED_MS

    def as_json(self) -> dict[str, object]:
        """Plain values, under the names that databases have them."""
        saved: dict[str, object] = msgspec.to_builtins(self)
        return {name: saved[name] for name in _SAVED}

    @staticmethod
    def from_json(state: Mapping[str, object]) -> TrialCounts:
        """Read back what `as_json` wrote; all trials were measured by an earlier call."""
        counts = msgspec.convert({name: state[name] for name in _SAVED}, TrialCounts)
        counts.reused = len(counts.latency_ms)
        return counts


_SAVED = [name for name in TrialCounts.__struct_encode_fields__ if name != "reused"]


@dataclass
class SearchProgress:
    """The sketches of a task and the state of its strategy; all but the sketches are saved."""

    sketches: list[Schedule] = field(default_factory=list)
    is_running: bool = False  # between `pre_tuning` and `post_tuning` of the strategy
    saved: Mapping[str, Any] = field(default_factory=dict)  # of the strategy, by an earlier call
    counted: SearchStatistics = field(default_factory=SearchStatistics)  # in the funnel so far
    finished: str | None = None  # why it had nothing more to propose

    def new_drafts(self, strategy: object, sent: int) -> SearchStatistics:
        """The drafts since the last call; a strategy that does not count lost none of `sent`."""
        now = strategy.statistics if isinstance(strategy, Counting) else None
        if not isinstance(now, SearchStatistics):
            return SearchStatistics(proposed=sent, legal=sent, sent=sent)
        new, self.counted = now.since(self.counted), now.copy()
        return new

    def as_json(self, strategy: SearchStrategy | None) -> dict[str, object]:
        """Plain values, under the names that databases have them."""
        is_asked = self.is_running and strategy is not None
        state = strategy.state_dict() if is_asked and strategy else self.saved
        return {
            "counted": self.counted.as_json(),
            "finished": self.finished,
            "search": dict(state),
        }

    @staticmethod
    def from_json(state: Mapping[str, Any]) -> SearchProgress:
        """Read back what `as_json` wrote."""
        return SearchProgress(
            saved=state["search"],
            counted=SearchStatistics.from_json(state["counted"]),
            finished=state["finished"],
        )


@dataclass
class Round:
    """The candidates of a task that are measured together."""

    number: int = 0
    first_trial: int = 0  # the number of its first candidate
    predictions: Sequence[float | None] = ()
    baselines: Sequence[str] = ()  # the names of its candidates, if they are not the search's
    reused: frozenset[int] = frozenset()  # those whose measurement was known already
    results: RunnerResults = ()
    funnel: Funnel | None = None  # once it is complete


@dataclass
class TaskRecord:
    """One task, its weight in the whole, and the measurements of its candidates."""

    ctx: TuneContext
    task_weight: float = 1.0
    seed: int | None = None
    asked_seed: int | None = None  # of the user, where the task has one drawn from it
    is_terminated: bool = False
    computes: str = ""  # what rivals compute, too: of those only the fastest is used
    expected_secs: float | None = None  # of its kernel in a model, before anything is measured
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
    def computed(self) -> object:
        """Equal for rivals; something of its own for all other tasks."""
        return self.computes or id(self)

    @property
    def starts_late(self) -> bool:
        """True if its space is made when it is its turn, which may be never: a model has many."""
        return self.expected_secs is not None

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
        return self.counts.failures.get("build_error", 0)

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

    def claim(self, candidates: list[MeasureCandidate]) -> list[MeasureCandidate]:
        """Candidates without those that another tuner measures; the strategy forgets these."""
        fresh = [each.program_hash for each in candidates if self.measured.find(each) is None]
        if self.records is None or not fresh:
            return candidates
        taken = set(fresh) - self.records.claim(fresh)
        if taken:
            self.ctx.notify_known([each for each in candidates if each.program_hash in taken])
        return [each for each in candidates if each.program_hash not in taken]

    def look_up(self, candidates: Candidates) -> list[RunnerResult | None]:
        """The results of those candidates of a round that were measured before."""
        found = [self.measured.find(candidate) for candidate in candidates]
        self.round.reused = frozenset(n for n, result in enumerate(found) if result is not None)
        return found

    def add_trials(self, candidates: Candidates, results: RunnerResults, elapsed: float) -> None:
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
