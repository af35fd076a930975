"""The tables `runs`, `trials` and `funnel`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, fields
from typing import Any, TypeVar

import msgspec

from tilewright.database.base import logger
from tilewright.database.history import FunnelCount, History, Run, Trial
from tilewright.database.problem import Problem, readable
from tilewright.database.sqlite_file import SQLiteFile
from tilewright.database.sqlite_rows import object_from_json, to_json

_RowT = TypeVar("_RowT", Run, Trial, FunnelCount)

# The columns of a table are the fields of its class, in order.
_TABLES: dict[type, str] = {Run: "runs", Trial: "trials", FunnelCount: "funnel"}
_WHERE = "WHERE (? IS NULL OR run_id = ?) AND (? IS NULL OR task = ?)"


class SQLiteHistory(History):
    """A history in the same file as the records."""

    def __init__(self, file: SQLiteFile) -> None:
        self._file = file

    def _add_run(self, run: Run) -> int:
        text = to_json(dict(run.options), "options")
        with self._file.transaction():
            cursor = self._file.connection.execute(
                "INSERT INTO runs (name, status, started, seed, target, options) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (run.name, run.status, run.started, run.seed, run.target, text),
            )
        return int(cursor.lastrowid or 0)

    def _set_status(self, run: int, status: str, finished: float | None) -> bool:
        with self._file.transaction():
            changed = self._file.connection.execute(
                "UPDATE runs SET status = ?, finished = ? WHERE id = ?", (status, finished, run)
            )
        return bool(changed.rowcount)

    def runs(self) -> list[Run]:
        return self._read(Run, "ORDER BY id")

    def add_trials(self, trials: Sequence[Trial]) -> None:
        self._write("INSERT OR IGNORE", trials)

    def trials(self, run: int | None = None, task: str | None = None) -> list[Trial]:
        return self._read(Trial, f"{_WHERE} ORDER BY run_id, task, number", (run, run, task, task))

    def _set_count(self, count: FunnelCount) -> None:
        self._write("INSERT OR REPLACE", [count])

    def funnel(self, run: int | None = None, task: str | None = None) -> list[FunnelCount]:
        return self._read(FunnelCount, _WHERE, (run, run, task, task))

    def problems(self) -> list[Problem]:
        """Rows that cannot be read; those of trials and funnel have the number of their run."""
        found: list[Problem] = []
        for kind in _TABLES:
            self._read(kind, "ORDER BY 1", report=found.append)
        return found

    def _write(self, insert: str, values: Iterable[Trial | FunnelCount]) -> None:
        with self._file.transaction():
            for value in values:
                row = astuple(value)
                marks = ", ".join("?" * len(row))
                statement = f"{insert} INTO {_TABLES[type(value)]} VALUES ({marks})"
                self._file.connection.execute(statement, row)

    def _read(
        self,
        kind: type[_RowT],
        condition: str,
        values: Sequence[object] = (),
        report: Callable[[Problem], object] | None = None,
    ) -> list[_RowT]:
        """What the rows hold; one that is damaged is reported and skipped."""
        table = _TABLES[kind]
        rows = self._file.rows(f"SELECT * FROM {table} {condition}", values)
        read = functools.partial(_made, kind)
        found = (readable(table, row[0], row, read, report or _warn) for row in rows)
        return [value for value in found if value is not None]


def _warn(problem: Problem) -> None:
    logger.warning("skipped a row: %s", problem)


def _made(kind: type[_RowT], row: Sequence[Any]) -> _RowT:
    values = {field.name: value for field, value in zip(fields(kind), row, strict=True)}
    if "options" in values:
        values["options"] = object_from_json(values["options"])
    return msgspec.convert(values, kind)
