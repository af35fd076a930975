"""The tables `runs`, `trials` and `funnel`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from tilewright.database.base import logger
from tilewright.database.history import FunnelCount, History, Run, Trial, unknown_run
from tilewright.database.problem import Problem, reading_row
from tilewright.database.sqlite_file import SQLiteFile
from tilewright.database.sqlite_rows import object_from_json, to_json
from tilewright.errors import StoredDataError
from tilewright.records import FailureKind

_T = TypeVar("_T")


class SQLiteHistory(History):
    """A history in the same file as the records."""

    def __init__(self, file: SQLiteFile) -> None:
        self._file = file

    def begin_run(
        self,
        name: str,
        *,
        target: str = "",
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> int:
        text = to_json(dict(options or {}), "options")
        with self._file.transaction():
            cursor = self._file.connection.execute(
                "INSERT INTO runs (name, status, started, seed, target, options) "
                "VALUES (?, 'running', ?, ?, ?, ?)",
                (name, time.time(), seed, target, text),
            )
        return int(cursor.lastrowid or 0)

    def finish_run(self, run: int, status: str = "finished") -> None:
        with self._file.transaction():
            changed = self._file.connection.execute(
                "UPDATE runs SET status = ?, finished = ? WHERE id = ?", (status, time.time(), run)
            )
        if not changed.rowcount:
            raise unknown_run(run)

    def resume_run(self, run: int) -> bool:
        with self._file.transaction():
            changed = self._file.connection.execute(
                "UPDATE runs SET status = 'running', finished = NULL WHERE id = ?", (run,)
            )
        return bool(changed.rowcount)

    def runs(self) -> list[Run]:
        rows = self._file.rows(f"SELECT {_RUN_COLUMNS} FROM runs ORDER BY id")
        return list(_readable("runs", rows, _run))

    def add_trials(self, trials: Sequence[Trial]) -> None:
        with self._file.transaction():
            self._file.connection.executemany(
                "INSERT OR IGNORE INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [_trial_row(trial) for trial in trials],
            )

    def trials(self, run: int | None = None, task: str | None = None) -> list[Trial]:
        rows = self._file.rows(
            f"SELECT {_TRIAL_COLUMNS} FROM trials {_WHERE} ORDER BY run_id, task, number",
            (run, run, task, task),
        )
        return list(_readable("trials", rows, _trial))

    def set_count(
        self, run: int, task: str, round: int, stage: str, count: int, reason: str = ""
    ) -> None:
        with self._file.transaction():
            self._file.connection.execute(
                "INSERT OR REPLACE INTO funnel VALUES (?, ?, ?, ?, ?, ?)",
                (run, task, round, stage, reason, count),
            )

    def funnel(self, run: int | None = None, task: str | None = None) -> list[FunnelCount]:
        rows = self._file.rows(
            f"SELECT {_COUNT_COLUMNS} FROM funnel {_WHERE}", (run, run, task, task)
        )
        return list(_readable("funnel", rows, _count))

    def problems(self) -> list[Problem]:
        """Rows that cannot be read; those of trials and funnel have the number of their run."""
        found: list[Problem] = []
        for table, columns, read in _TABLES:
            rows = self._file.rows(f"SELECT {columns} FROM {table} ORDER BY 1")
            for _ in _readable(table, rows, read, found.append):
                pass
        return found


_RUN_COLUMNS = "id, name, status, started, finished, seed, target, options"
_TRIAL_COLUMNS = "run_id, task, number, round, mean, failure, prediction, elapsed, record_id"
_COUNT_COLUMNS = "run_id, task, round, stage, reason, count"
_WHERE = "WHERE (? IS NULL OR run_id = ?) AND (? IS NULL OR task = ?)"


def _warn(problem: Problem) -> None:
    logger.warning("skipped a row: %s", problem)


def _readable(
    table: str,
    rows: Iterable[tuple[Any, ...]],
    read: Callable[[tuple[Any, ...]], _T],
    report: Callable[[Problem], None] = _warn,
) -> Iterator[_T]:
    """What the rows hold; one that is damaged is reported and skipped."""
    for row in rows:
        try:
            with reading_row(table, row[0]):
                value = read(row)
        except StoredDataError as error:
            report(Problem.of(table, row[0], error))
        else:
            yield value


_RunRow = tuple[int, str, str, float, float | None, int | None, str, str]


def _run(row: tuple[Any, ...]) -> Run:
    number, name, status, started, finished, seed, target, options = msgspec.convert(row, _RunRow)
    return Run(number, name, status, started, finished, seed, target, object_from_json(options))


def _trial_row(trial: Trial) -> tuple[Any, ...]:
    return (
        trial.run,
        trial.task,
        trial.number,
        trial.round,
        trial.mean_secs,
        None if trial.failure is None else trial.failure.value,
        trial.prediction,
        trial.elapsed,
        trial.record_id,
    )


_TrialRow = tuple[
    int, str, int, int | None, float | None, str | None, float | None, float | None, int | None
]


def _trial(row: tuple[Any, ...]) -> Trial:
    values = msgspec.convert(row, _TrialRow)
    run, task, number, round_, mean, failure, prediction, elapsed, record_id = values
    cause = None if failure is None else FailureKind(failure)
    return Trial(run, task, number, round_, mean, cause, prediction, elapsed, record_id)


_CountRow = tuple[int, str, int, str, str, int]


def _count(row: tuple[Any, ...]) -> FunnelCount:
    return FunnelCount(*msgspec.convert(row, _CountRow))


_TABLES: tuple[tuple[str, str, Callable[[tuple[Any, ...]], object]], ...] = (
    ("runs", _RUN_COLUMNS, _run),
    ("trials", _TRIAL_COLUMNS, _trial),
    ("funnel", _COUNT_COLUMNS, _count),
)
