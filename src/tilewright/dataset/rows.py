"""Files of rows: JSON lines, which may grow, or Parquet, which is written in one piece.

A row that was being written when a process was killed is a line without an end: it is dropped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tilewright.errors import StoredDataError
from tilewright.support.files import write_whole
from tilewright.support.table_files import pyarrow, write_parquet

Row = dict[str, Any]
LINES, PARQUET = ".jsonl", ".parquet"
FORMATS = ("jsonl", "parquet")


def read_rows(path: Path) -> list[Row]:
    """All rows of a file; of a file of lines, those that are whole."""
    if path.suffix == PARQUET:
        return _read_parquet(path)
    rows = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise StoredDataError(f"{path}, line {number}: {error}") from error
        if not isinstance(row, dict):
            raise StoredDataError(f"{path}, line {number}: expected an object, got {row!r:.40}")
        rows.append(row)
    return rows


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a file in one piece."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == PARQUET:
        _write_parquet(path, list(rows))
    else:
        write_whole(path, "".join(map(_line, rows)))


def append_rows(path: Path, rows: Sequence[Row]) -> None:
    """Add rows to a file of lines; they are on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write("".join(map(_line, rows)).encode())
        file.flush()
        os.fsync(file.fileno())


def drop_cut_row(path: Path) -> None:
    """Remove the row that was being written when its process was killed."""
    if path.exists():
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.truncate(path, whole)


def _line(row: Row) -> str:
    return json.dumps(row, separators=(",", ":")) + "\n"


def _read_parquet(path: Path) -> list[Row]:
    library = pyarrow("jsonl")
    try:
        rows: list[Row] = library.parquet.read_table(str(path)).to_pylist()
    except (OSError, ValueError, library.ArrowException) as error:
        raise StoredDataError(f"{path} cannot be read: {error}") from error
    return [{name: _decoded(name, value) for name, value in row.items()} for row in rows]


def _write_parquet(path: Path, rows: Sequence[Row]) -> None:
    # Steps of a trace are of all kinds; a text holds them.
    flat = [{name: _encoded(name, value) for name, value in row.items()} for row in rows]
    write_parquet(path, flat, "jsonl")


_AS_TEXT = frozenset({"trace", "args_info"})


def _encoded(name: str, value: Any) -> Any:
    return json.dumps(value) if name in _AS_TEXT else value


def _decoded(name: str, value: Any) -> Any:
    return json.loads(value) if name in _AS_TEXT else value
