"""`tilewright compare`, `bundle` and `open`: the commands; their work is in `share.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.arguments import (
    DatabaseOption,
    JsonOption,
    TargetOption,
    argument,
    option,
    work_of,
)

_SIDE = "A database, DATABASE#RUN, a benchmark's FILE.json, or COMMIT:FILE.json"


def compare(
    first: Annotated[str, argument("A", f"{_SIDE}.")],
    second: Annotated[str, argument("B", "The same; ratios are B to A.")],
    csv: Annotated[Path | None, option("--csv FILE", "Write the rows as CSV.")] = None,
    parquet: Annotated[Path | None, option("--parquet FILE", "Write them as Parquet.")] = None,
    json: JsonOption = False,
) -> None:
    """Compare what two databases, runs or commits measured: ratios with intervals of 95 %."""
    work_of("share").compare_sides(first, second, csv, parquet, as_json=json)


def bundle(
    record: Annotated[str, argument("RECORD", "As for `tilewright show`: an id, a program.")],
    db: DatabaseOption = None,
    output: Annotated[Path | None, option("--output -o FILE", "[default: RECORD.twb]")] = None,
    target: TargetOption = "llvm",
) -> None:
    """Write one kernel to one file that rebuilds, checks and measures it elsewhere."""
    work_of("share").bundle(record, db, output, target)


def open_(
    file: Annotated[Path, argument("BUNDLE", "What `bundle` wrote.")],
    run: Annotated[bool, option("--run/--no-run", "Build, check and measure it here.")] = True,
    script: Annotated[bool, option("--script", "Print the scheduled program.")] = False,
    json: JsonOption = False,
) -> None:
    """Rebuild, check and measure the kernel in a bundle; nothing in the file is trusted."""
    raise typer.Exit(work_of("share").open_file(file, run=run, script=script, as_json=json))


def add_to(app: typer.Typer) -> None:
    """Make the commands known."""
    app.command()(compare)
    app.command()(bundle)
    app.command("open")(open_)
