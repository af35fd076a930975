"""Rows that cannot be read: one error that names the row, and what is reported of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tilewright.errors import StoredDataError, TilewrightError
from tilewright.support.decoding import decoding
from tilewright.support.text import printable

_T = TypeVar("_T")
_ContentT = TypeVar("_ContentT")


@dataclass(frozen=True)
class Problem:
    """A row that could not be read and was skipped."""

    table: str
    row: int  # its id, or its line counted from 1; 0: all of the table
    reason: str

    def __str__(self) -> str:
        return printable(f"{self.table} {self.row}: {self.reason}", "\n")

    @staticmethod
    def of(table: str, row: int, error: TilewrightError) -> Problem:
        """What an error says about a row."""
        return Problem(table, row, str(error).removeprefix(f"{table} {row}: "))


@contextmanager
def reading_row(table: str, row: int) -> Iterator[None]:
    """Whatever makes a row unreadable inside becomes a `StoredDataError` that names the row."""
    place = f"{table} {row}"
    try:
        with decoding(place, StoredDataError):
            yield
    except StoredDataError as error:
        if str(error).startswith(f"{place}: "):
            raise
        raise StoredDataError(f"{place}: {error}") from error


def readable(
    table: str,
    row: int,
    content: _ContentT,
    read: Callable[[_ContentT], _T],
    report: Callable[[Problem], object],
) -> _T | None:
    """What a row holds; None, and a report, if it is damaged."""
    try:
        with reading_row(table, row):
            return read(content)
    except StoredDataError as error:
        report(Problem.of(table, row, error))
        return None
