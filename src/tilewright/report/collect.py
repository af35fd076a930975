"""Gathers the facts about each task of a database for tables and reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from tilewright.database import (
    Database,
    FunnelCount,
    Trial,
    failures_by_cause,
    funnel_totals,
)
from tilewright.database.base import by_task, speed_order
from tilewright.database.history import trial_of
from tilewright.database.similarity import describe
from tilewright.ir import IRModule
from tilewright.records import (
    FAILED_RUN_SECS,
    PLAIN,
    ZERO_SEARCH,
    FailureKind,
    TuningRecord,
    Workload,
)
from tilewright.report.course import Course
from tilewright.report.roofline import MeasuredPeaks, Roofline, bytes_of, flop_of, roofline_of
from tilewright.report.units import short_target
from tilewright.target import Target

# How far a candidate got, in order; a candidate that left the way has a reason.
STAGES = ("proposed", "legal", "built", "ran", "correct")


@dataclass(frozen=True)
class StageTotal:
    """How many candidates reached a stage, and why others did not."""

    name: str
    count: int
    losses: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskSummary:
    """One program on one target, and what to know of all that was measured of it."""

    workload: Workload
    name: str  # for people: `C 128x128x128`
    labels: tuple[str, ...]  # what runs called it
    target: str
    flop: float
    roofline: Roofline | None
    records: int
    failed: int  # those without a running time
    causes: Mapping[FailureKind, int]  # of failures, the commonest first
    course: Course
    named: tuple[TuningRecord, ...]  # all records, or of many the baselines and the best
    predicted: tuple[Trial, ...]  # in order; of many the last
    funnel: tuple[StageTotal, ...]
    errors: Mapping[FailureKind, str]  # the first message of each cause

    @cached_property
    def best(self) -> TuningRecord | None:
        """The fastest valid record."""
        valid = (record for record in self.named if record.is_valid)
        return min(valid, key=speed_order, default=None)

    @property
    def best_secs(self) -> float | None:
        """Its running time."""
        return None if self.best is None else self.best.mean_secs

    @property
    def share(self) -> float | None:
        """Its share of the roofline."""
        return None if self.roofline is None else self.roofline.share(self.best_secs)

    @property
    def plain_secs(self) -> float | None:
        """What the program takes as it was given."""
        return self._baseline(PLAIN)

    @property
    def zero_search_secs(self) -> float | None:
        """What it takes with the schedule that needs no search."""
        return self._baseline(ZERO_SEARCH)

    def _baseline(self, what: str) -> float | None:
        found = [r.mean_secs for r in self.named if r.baseline == what]
        return min((secs for secs in found if secs < FAILED_RUN_SECS), default=None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What runs had to say of the program itself, each once."""
        found = (note for record in self.named for note in record.notes)
        return tuple(dict.fromkeys(map(str, found)))

    @property
    def title(self) -> str:
        """Label and name, each once."""
        return " · ".join(dict.fromkeys([*self.labels, self.name]))


def collect(database: Database) -> list[TaskSummary]:
    """One summary for each workload and target, in the order of their first records."""
    groups = by_task(database.get_all_tuning_records())
    return [_summarize(database, workload, records) for (workload, _), records in groups.items()]


def _summarize(
    database: Database, workload: Workload, records: Sequence[TuningRecord]
) -> TaskSummary:
    trials = _in_order(records)
    target, causes = records[0].target, failures_by_cause(trials)
    failed = sum(trial.mean_secs is None for trial in trials)
    return TaskSummary(
        workload=workload,
        name=describe(workload.mod),
        labels=run_labels(trial.task for trial in trials),
        target=short_target(target),
        flop=flop_of(workload.mod),
        roofline=known_roofline(database, workload.mod, target),
        records=len(records),
        failed=failed,
        causes=causes,
        course=Course.of_trials(trials),
        named=tuple(records),
        predicted=tuple(trials),
        funnel=funnel(_counts(database, trials), Measured(len(trials), failed, causes)),
        errors=_first_errors(records),
    )


def run_labels(given: Iterable[str]) -> tuple[str, ...]:
    """What runs called a task; a function that has no name of its own is called main."""
    return tuple(dict.fromkeys(label for label in given if label not in ("", "main")))


def known_roofline(database: Database, mod: IRModule, target: Target | None) -> Roofline | None:
    """With the peaks that were measured together with the records, if they were."""
    stored = None if target is None else MeasuredPeaks.stored(database, target)
    covers = stored is not None and stored.covers(bytes_of(mod))
    return roofline_of(mod, target, stored if covers else None)


def _in_order(records: Iterable[TuningRecord]) -> list[Trial]:
    """Trials by run and number; records that belong to no run come first, as they were kept."""
    found: list[Trial | None] = []
    for place, record in enumerate(records):
        loose = {"run": 0, "trial": place, "prediction": record.extra.get("prediction")}
        found.append(trial_of(record) or trial_of(replace(record, extra=loose)))
    return sorted(filter(None, found), key=lambda trial: (trial.run, trial.number))


def _first_errors(records: Iterable[TuningRecord]) -> dict[FailureKind, str]:
    found: dict[FailureKind, str] = {}
    for record in records:
        if record.failure is not None:
            found.setdefault(record.failure, record.error_msg or "")
    return found


# --- the funnel ---------------------------------------------------------------------------------


def _counts(database: Database, trials: Sequence[Trial]) -> list[FunnelCount]:
    places = dict.fromkeys((trial.run, trial.task) for trial in trials if trial.run)
    return [entry for place in places for entry in database.history.funnel(*place)]


class Measured(NamedTuple):
    """Trials in numbers."""

    trials: int
    failed: int
    causes: Mapping[FailureKind, int]


def funnel(counted: Iterable[FunnelCount], measured: Measured) -> tuple[StageTotal, ...]:
    """The stages as the runs counted them; without counts, what follows from the trials."""
    counts = [entry for entry in counted if entry.count]
    if not counts:
        return tuple(_funnel_of_trials(measured))
    totals = funnel_totals(counts)
    names = [*STAGES, *dict.fromkeys(stage for stage, _ in totals if stage not in STAGES)]
    stages = []
    for name in names:
        losses = {why: number for (stage, why), number in totals.items() if stage == name and why}
        if (name, "") in totals or losses:
            by_size = dict(sorted(losses.items(), key=lambda item: -item[1]))
            stages.append(StageTotal(name, totals.get((name, ""), 0), by_size))
    return tuple(stages)


_LOST_AT = {
    FailureKind.BUILD_ERROR: "built",
    FailureKind.WRONG_RESULT: "correct",
    FailureKind.IMPOSSIBLE_SPEED: "correct",
}


def _funnel_of_trials(measured: Measured) -> Iterator[StageTotal]:
    lost: dict[str, Counter[str]] = {stage: Counter() for stage in ("built", "ran", "correct")}
    for cause, number in measured.causes.items():
        lost[_LOST_AT.get(cause, "ran")][cause.value] += number
    unknown = measured.failed - sum(measured.causes.values())
    if unknown > 0:
        lost["ran"]["run_error"] += unknown
    left = measured.trials
    yield StageTotal("measured", left)
    for name, causes in lost.items():
        left -= sum(causes.values())
        yield StageTotal(name, left, dict(causes.most_common()))
