"""`tilewright compare`, `bundle` and `open`: the commands; their work is in `share.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.arguments import DatabaseOption, JsonOption, TargetOption, work_of

_SIDE = "A database, DATABASE#RUN, a benchmark's FILE.json, or COMMIT:FILE.json"


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help=f"{_SIDE}.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The same; ratios are B to A.")],
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the rows as CSV.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Write them as Parquet.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compare what two databases, runs or commits measured: ratios with intervals of 95 %."""
    work_of("share").compare_sides(first, second, csv, parquet, as_json=json)


def bundle(
    record: Annotated[
        str, typer.Argument(metavar="RECORD", help="As for `tilewright show`: an id, a program.")
    ],
    db: DatabaseOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="[default: RECORD.twb]"),
    ] = None,
    target: TargetOption = "llvm",
) -> None:
    """Write one kernel to one file that rebuilds, checks and measures it elsewhere."""
    work_of("share").bundle(record, db, output, target)


def open_(
    file: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What `bundle` wrote.")],
    run: Annotated[
        bool, typer.Option("--run/--no-run", help="Build, check and measure it here.")
    ] = True,
    script: Annotated[bool, typer.Option("--script", help="Print the scheduled program.")] = False,
    json: JsonOption = False,
) -> None:
    """Rebuild, check and measure the kernel in a bundle; nothing in the file is trusted."""
    raise typer.Exit(work_of("share").open_file(file, run=run, script=script, as_json=json))


def add_to(app: typer.Typer) -> None:
    """Make the commands known."""
    app.command()(compare)
    app.command()(bundle)
    app.command("open")(open_)
