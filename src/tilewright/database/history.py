"""The history of tuning: runs, their trials in order, and how many candidates got how far.

The records of a database say what is best; the history says how the search got there. Reports read
best-so-far curves, failures by cause, predictions against measurements and the funnel from it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.errors import DatabaseError
from tilewright.records import FAILED_RUN_SECS, FailureKind, TuningRecord


@dataclass(frozen=True)
class Run:
    """One call of the tuner; resumed ones keep their number."""

    id: int
    name: str
    status: str  # "running" until it is finished
    started: float  # seconds since 1970
    finished: float | None = None
    seed: int | None = None
    target: str = ""
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """One measured candidate of a run."""

    run: int
    task: str
    number: int  # counts from 0 in each task
    round: int | None = None
    mean_secs: float | None = None  # None: it failed
    failure: FailureKind | None = None
    prediction: float | None = None
    elapsed: float | None = None  # seconds since the run began
    record_id: int | None = None  # where a database numbers its records


@dataclass(frozen=True)
class FunnelCount:
    """How many candidates of a round reached a stage, or left it for a reason."""

    run: int
    task: str
    round: int
    stage: str  # proposed, legal, built, ran, correct
    reason: str  # "": they went on
    count: int


def trial_of(record: TuningRecord, record_id: int | None = None) -> Trial | None:
    """The trial that a record was made in; None if it does not say."""
    extra = record.extra
    if extra.get("run") is None or extra.get("trial") is None:
        return None
    mean = record.mean_secs
    return Trial(
        run=int(extra["run"]),
        task=str(extra.get("task") or ""),
        number=int(extra["trial"]),
        round=extra.get("round"),
        mean_secs=None if record.failure is not None or mean >= FAILED_RUN_SECS else mean,
        failure=record.failure,
        prediction=extra.get("prediction"),
        elapsed=extra.get("elapsed"),
        record_id=record_id,
    )


def best_so_far(trials: Iterable[Trial]) -> list[tuple[int, float]]:
    """The trials that were the best yet, and their seconds."""
    curve: list[tuple[int, float]] = []
    for trial in trials:
        if trial.mean_secs is not None and (not curve or trial.mean_secs < curve[-1][1]):
            curve.append((trial.number, trial.mean_secs))
    return curve


def failures_by_cause(trials: Iterable[Trial]) -> dict[FailureKind, int]:
    """How many trials failed, by cause, the commonest first."""
    causes = Counter(trial.failure for trial in trials if trial.failure is not None)
    return dict(causes.most_common())


def funnel_totals(counts: Iterable[FunnelCount]) -> dict[tuple[str, str], int]:
    """Candidates by stage and reason, over all rounds."""
    totals: Counter[tuple[str, str]] = Counter()
    for entry in counts:
        totals[entry.stage, entry.reason] += entry.count
    return dict(totals)


class History(ABC):
    """Where runs, trials and counts are kept."""

    def begin_run(
        self,
        name: str,
        *,
        target: str = "",
        seed: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> int:
        """A new run; its number goes into the records' `extra["run"]`."""
        run = Run(0, name, "running", time.time(), None, seed, target, dict(options or {}))
        return self._add_run(run)

    def finish_run(self, run: int, status: str = "finished") -> None:
        """Note how a run ended."""
        if not self._set_status(run, status, time.time()):
            raise DatabaseError(f"there is no run {run}; `history.runs()` lists them")

    def resume_run(self, run: int) -> bool:
        """Go on with a run; False if it is not known here, so that a new one must begin."""
        return self._set_status(run, "running", None)

    @abstractmethod
    def _add_run(self, run: Run) -> int:
        """Keep a run under a number of its own, which is returned."""

    @abstractmethod
    def _set_status(self, run: int, status: str, finished: float | None) -> bool:
        """Change a run; False if it is not known."""

    @abstractmethod
    def runs(self) -> list[Run]:
        """All runs, oldest first."""

    @abstractmethod
    def add_trials(self, trials: Sequence[Trial]) -> None:
        """Note trials; one that is known already changes nothing."""

    @abstractmethod
    def trials(self, run: int | None = None, task: str | None = None) -> list[Trial]:
        """Trials in order, of all or of one run or task."""

    def set_count(
        self, run: int, task: str, round: int, stage: str, count: int, reason: str = ""
    ) -> None:
        """Say how many candidates of a round reached a stage, or left it for a reason."""
        self._set_count(FunnelCount(run, task, round, stage, reason, count))

    @abstractmethod
    def _set_count(self, count: FunnelCount) -> None:
        """Keep a count in the place of an earlier one of the same round, stage and reason."""

    @abstractmethod
    def funnel(self, run: int | None = None, task: str | None = None) -> list[FunnelCount]:
        """The counts, of all or of one run or task."""


class MemoryHistory(History):
    """A history that lives as long as its database object."""

    def __init__(self) -> None:
        self._runs: dict[int, Run] = {}
        self._trials: dict[tuple[int, str, int], Trial] = {}
        self._counts: dict[tuple[int, str, int, str, str], FunnelCount] = {}

    def _add_run(self, run: Run) -> int:
        number = len(self._runs) + 1
        self._runs[number] = replace(run, id=number)
        return number

    def _set_status(self, run: int, status: str, finished: float | None) -> bool:
        if run not in self._runs:
            return False
        self._runs[run] = replace(self._runs[run], status=status, finished=finished)
        return True

    def runs(self) -> list[Run]:
        return list(self._runs.values())

    def add_trials(self, trials: Sequence[Trial]) -> None:
        for trial in trials:
            self._trials.setdefault((trial.run, trial.task, trial.number), trial)

    def trials(self, run: int | None = None, task: str | None = None) -> list[Trial]:
        return [self._trials[key] for key in sorted(self._trials) if _of(key, run, task)]

    def _set_count(self, count: FunnelCount) -> None:
        self._counts[count.run, count.task, count.round, count.stage, count.reason] = count

    def funnel(self, run: int | None = None, task: str | None = None) -> list[FunnelCount]:
        return [count for key, count in self._counts.items() if _of(key, run, task)]


def _of(key: tuple[object, ...], run: int | None, task: str | None) -> bool:
    return run in (None, key[0]) and task in (None, key[1])
