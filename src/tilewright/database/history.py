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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
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
_BATCH = 20_000  # trials that are read together
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

    def runs(self, last: int | None = None) -> list[Run]:
        """All runs, oldest first, or only the last ones."""
        if last is None:
            return self._read(Run, "ORDER BY id")
        return self._read(Run, "ORDER BY id DESC LIMIT ?", (last,))[::-1]

    def add_trials(self, trials: Sequence[Trial]) -> None:
        """Note trials; one that is known already changes nothing."""
        self._write("DO NOTHING", trials)

    def trials(self, run: int | None = None, task: str | None = None) -> list[Trial]:
        """Trials in order, of all or of one run or task."""
        where, values = _where(run, task)
        return self._read(Trial, f"{where} ORDER BY run_id, task, number", values)

    def last_trials(self, run: int, task: str, count: int) -> list[Trial]:
        """The last trials of a task in a run, in order."""
        where, values = _where(run, task)
        return self._read(Trial, f"{where} ORDER BY number DESC LIMIT ?", (*values, count))[::-1]

    def best_trials(self, run: int, task: str, count: int) -> list[Trial]:
        """The fastest trials of a task in a run, the fastest first."""
        where, values = _where(run, task)
        fastest = f"{where} AND mean IS NOT NULL ORDER BY mean, number LIMIT ?"
        return self._read(Trial, fastest, (*values, count))

    def course(self, run: int, task: str) -> Iterator[float | None]:
        """The seconds of its trials in order, read some at a time; None: it failed."""
        where, values = _where(run, task)
        statement = (
            f"SELECT number, mean FROM trials {where} AND number > ? ORDER BY number LIMIT ?"
        )
        last = -1
        while rows := self._store.rows(statement, (*values, last, _BATCH)):
            yield from (mean for _, mean in rows)
            last = rows[-1][0]

    def set_count(
        self, run: int, task: str, round: int, stage: str, count: int, reason: str = ""
    ) -> None:
        """Say how many candidates of a round reached a stage, or left it for a reason."""
        self._write(_COUNT_AGAIN, [FunnelCount(run, task, round, stage, reason, count)])

    def funnel(self, run: int | None = None, task: str | None = None) -> list[FunnelCount]:
        """The counts, of all or of one run or task."""
        return self._read(FunnelCount, *_where(run, task))

    def losses(self) -> dict[int, dict[str, int]]:
        """How many candidates left the way, by run and reason."""
        found: dict[int, dict[str, int]] = {}
        for run, reason, count in self._store.rows(
            "SELECT run_id, reason, sum(count) FROM funnel WHERE reason <> '' GROUP BY 1, 2"
        ):
            found.setdefault(run, {})[reason] = int(count)
        return found

    def take(self, other: History) -> None:
        """Copies the runs of another history, if there are none here yet."""
        if self.runs():
            return
        everything: list[Run | Trial | FunnelCount]
        # The records have numbers of their own here, which they brought along.
        trials = (replace(trial, record_id=None) for trial in other.trials())
        everything = [*other.runs(), *trials, *other.funnel()]

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


def _where(run: int | None, task: str | None) -> tuple[str, tuple[object, ...]]:
    """The condition for rows of a run and a task, as far as they are given."""
    given = [
        (name, value) for name, value in (("run_id", run), ("task", task)) if value is not None
    ]
    conditions = " AND ".join(f"{name} = ?" for name, _ in given)
    return f"WHERE {conditions or 'TRUE'}", tuple(value for _, value in given)


def _made(kind: type[_RowT], row: Sequence[Any]) -> _RowT:
    values = {field.name: value for field, value in zip(fields(kind), row, strict=True)}
    if "options" in values:
        values["options"] = object_from_json(values["options"])
    return msgspec.convert(values, kind)
