"""The history of tuning: runs, their trials in order, and how many candidates got how far.

The records of a database say what is best; the history says how the search got there. Reports read
best-so-far curves, failures by cause, predictions against measurements and the funnel from it.
"""

from __future__ import annotations

import functools
import logging
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Any, TypeVar

import msgspec

from tilewright.database.sql_rows import object_from_json, to_json
from tilewright.database.sql_store import SQLStore, marks
from tilewright.database.sqlite_file import SQLiteFile, in_memory
from tilewright.database.stored_record import Problem, readable
from tilewright.errors import DatabaseError
from tilewright.records import FAILED_RUN_SECS, FailureKind, TuningRecord

__all__ = [
    "Run", "Trial", "FunnelCount", "best_so_far", "failures_by_cause", "funnel_totals", "History",
]  # fmt: skip


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


_logger = logging.getLogger("tilewright.database")
_RowT = TypeVar("_RowT", Run, Trial, FunnelCount)

# The columns of a table are the fields of its class, in order.
_TABLES: dict[type, str] = {Run: "runs", Trial: "trials", FunnelCount: "funnel"}
_WHERE = "WHERE (CAST(? AS BIGINT) IS NULL OR run_id = ?) AND (CAST(? AS TEXT) IS NULL OR task = ?)"
_COUNT_AGAIN = "(run_id, task, round, stage, reason) DO UPDATE SET count = excluded.count"


class History:
    """Runs, trials and counts in SQL; without a store, for as long as this object lives."""

    def __init__(self, store: SQLStore | None = None) -> None:
        if store is None:
            store = SQLiteFile("the history", connection=in_memory())
            weakref.finalize(self, store.close)
        self._store = store

    def begin_run(
        self,
        name: str,
        *,
        target: str = "",
        seed: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> int:
        """A new run; its number goes into the records' `extra["run"]`."""
        text = to_json(dict(options or {}), "options")
        ((row_id,),) = self._store.atomically(
            lambda: self._store.rows(
                "INSERT INTO runs (name, status, started, seed, target, options) "
                "VALUES (?, 'running', ?, ?, ?, ?) RETURNING id",
                (name, time.time(), seed, target, text),
            )
        )
        return int(row_id)

    def finish_run(self, run: int, status: str = "finished") -> None:
        """Note how a run ended."""
        if not self._set_status(run, status, time.time()):
            raise DatabaseError(f"there is no run {run}; `history.runs()` lists them")

    def resume_run(self, run: int) -> bool:
        """Go on with a run; False if it is not known here, so that a new one must begin."""
        return self._set_status(run, "running", None)

    def _set_status(self, run: int, status: str, finished: float | None) -> bool:
        statement = "UPDATE runs SET status = ?, finished = ? WHERE id = ?"
        values = (status, finished, run)
        return bool(self._store.atomically(lambda: self._store.execute(statement, values)))

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        return self._read(Run, "ORDER BY id")

    def add_trials(self, trials: Sequence[Trial]) -> None:
        """Note trials; one that is known already changes nothing."""
        self._write("DO NOTHING", trials)

    def trials(self, run: int | None = None, task: str | None = None) -> list[Trial]:
        """Trials in order, of all or of one run or task."""
        return self._read(Trial, f"{_WHERE} ORDER BY run_id, task, number", (run, run, task, task))

    def set_count(
        self, run: int, task: str, round: int, stage: str, count: int, reason: str = ""
    ) -> None:
        """Say how many candidates of a round reached a stage, or left it for a reason."""
        self._write(_COUNT_AGAIN, [FunnelCount(run, task, round, stage, reason, count)])

    def funnel(self, run: int | None = None, task: str | None = None) -> list[FunnelCount]:
        """The counts, of all or of one run or task."""
        return self._read(FunnelCount, _WHERE, (run, run, task, task))

    def take(self, other: History) -> None:
        """Have the same runs as another history, if there are none here yet."""
        if self.runs():
            return
        everything: list[Run | Trial | FunnelCount]
        everything = [*other.runs(), *other.trials(), *other.funnel()]

        def write() -> None:
            self._write("DO NOTHING", everything)
            self._store.continue_ids("runs")

        self._store.atomically(write)

    def problems(self) -> list[Problem]:
        """Rows that cannot be read; those of trials and funnel have the number of their run."""
        found: list[Problem] = []
        for kind in _TABLES:
            self._read(kind, "ORDER BY 1", report=found.append)
        return found

    def _write(self, conflict: str, values: Iterable[Run | Trial | FunnelCount]) -> None:
        kept = list(values)

        def write() -> None:
            for value in kept:
                row = [
                    to_json(part, "options") if isinstance(part, Mapping) else part
                    for part in astuple(value)
                ]
                into = f"{_TABLES[type(value)]} VALUES ({marks(row)})"
                self._store.execute(f"INSERT INTO {into} ON CONFLICT {conflict}", row)

        self._store.atomically(write)

    def _read(
        self,
        kind: type[_RowT],
        condition: str,
        values: Sequence[object] = (),
        report: Callable[[Problem], object] | None = None,
    ) -> list[_RowT]:
        """What the rows hold; one that is damaged is reported and skipped."""
        table = _TABLES[kind]
        rows = self._store.rows(f"SELECT * FROM {table} {condition}", values)
        read = functools.partial(_made, kind)
        report = report or functools.partial(_logger.warning, "skipped a row: %s")
        found = (readable(table, row[0], row, read, report) for row in rows)
        return [value for value in found if value is not None]


def _made(kind: type[_RowT], row: Sequence[Any]) -> _RowT:
    values = {field.name: value for field, value in zip(fields(kind), row, strict=True)}
    if "options" in values:
        values["options"] = object_from_json(values["options"])
    return msgspec.convert(values, kind)
