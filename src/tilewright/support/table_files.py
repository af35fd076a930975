"""Tables as files for other programs: CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.errors import TuneError
from tilewright.support.files import replacing, write_whole

TableRow = Mapping[str, Any]


def pyarrow(instead: str) -> Any:
    """The library for Parquet."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise TuneError(
            f"Parquet files need the package pyarrow: pip install pyarrow, or use {instead}"
        ) from None
    return pyarrow


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[TableRow]) -> None:
    """A line of names, then one for each row; what a row does not have is empty."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue())


def write_parquet(path: Path, rows: Sequence[TableRow], instead: str = "csv") -> None:
    """The types of columns follow from their values."""
    library = pyarrow(instead)
    with replacing(path) as file:
        library.parquet.write_table(library.Table.from_pylist(list(rows)), file)
