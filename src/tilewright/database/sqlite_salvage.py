"""Getting out of a damaged SQLite file what can still be read.

The rows are copied into a database in memory, where everything works again but writing to the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from tilewright.database import sqlite_schema
from tilewright.database.problem import Problem, reading_row
from tilewright.database.stored_module import usable_module, workload_hashes
from tilewright.errors import StoredDataError
from tilewright.ir.json import load_json

# What SQLite reports; Python fails to decode a report that quotes damaged text.
SQLITE_ERRORS = (sqlite3.Error, UnicodeError)
_NUMBERED = ("workloads", "targets", "records", "runs")
_OTHERS = ("meta", "state", "trials", "funnel")
_LARGEST_GAP = 1000  # ids are given in order, so a long gap is the end


def salvage(
    damaged: sqlite3.Connection, modes: Iterable[str]
) -> tuple[sqlite3.Connection, list[Problem]]:
    """A database in memory with all rows that can be read, and what cannot."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    sqlite_schema.create(copy)
    copy.execute("DELETE FROM meta")
    problems: list[Problem] = []
    for table in _NUMBERED:
        _copy(copy, table, _numbered_rows(damaged, table, problems))
    for table in _OTHERS:
        _copy(copy, table, _leading_rows(damaged, table, problems))
    _index_workloads(copy, modes)
    return copy, problems


def _copy(copy: sqlite3.Connection, table: str, rows: Iterable[tuple[object, ...]]) -> None:
    for row in rows:
        marks = ", ".join("?" * len(row))
        copy.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)


def _numbered_rows(
    damaged: sqlite3.Connection, table: str, problems: list[Problem]
) -> Iterator[tuple[object, ...]]:
    row_id, gap = 1, 0
    unreadable: list[Problem] = []
    while gap < _LARGEST_GAP:
        try:
            row = damaged.execute(f"SELECT * FROM {table} WHERE id = ?", (row_id,)).fetchone()
        except SQLITE_ERRORS as error:
            row = None
            unreadable.append(Problem(table, row_id, str(error)))
        if row is not None:
            problems += unreadable  # what comes after the last row is the end, not a loss
            unreadable.clear()
            yield row
        gap = 0 if row is not None else gap + 1
        row_id += 1
    problems += _lost_at_the_end(unreadable, _last_id(damaged, table))


def _lost_at_the_end(unreadable: list[Problem], last_id: int) -> list[Problem]:
    """The end of a table cannot be told from rows that are lost, unless we know the last id."""
    if last_id or not unreadable:
        return [problem for problem in unreadable if problem.row <= last_id]
    first = unreadable[0]
    reason = f"this row and all after it cannot be read: {first.reason}"
    return [Problem(first.table, first.row, reason)]


def _last_id(damaged: sqlite3.Connection, table: str) -> int:
    """The last id that was given; 0 if even that is lost."""
    try:
        row = damaged.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    except SQLITE_ERRORS:
        return 0
    return 0 if row is None else int(row[0])


def _leading_rows(
    damaged: sqlite3.Connection, table: str, problems: list[Problem]
) -> Iterator[tuple[object, ...]]:
    try:
        yield from damaged.execute(f"SELECT * FROM {table}")
    except SQLITE_ERRORS as error:
        problems.append(Problem(table, 0, f"only its beginning could be read: {error}"))


def _index_workloads(copy: sqlite3.Connection, modes: Iterable[str]) -> None:
    for row_id, module in copy.execute("SELECT id, module FROM workloads").fetchall():
        try:
            with reading_row("workloads", row_id):
                hashes = workload_hashes(usable_module(load_json(module)), modes)
        except StoredDataError:
            continue  # whoever loads it will say so
        rows = [(mode, value, row_id) for mode, value in hashes.items()]
        copy.executemany("INSERT INTO workload_hashes VALUES (?, ?, ?)", rows)
