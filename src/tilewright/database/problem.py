"""Rows that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A row that could not be read and was skipped."""

    table: str
    row: int  # its id, or its line counted from 1; 0: all of the table
    reason: str

    def __str__(self) -> str:
        return f"{self.table} {self.row}: {self.reason}"
