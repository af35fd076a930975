"""`tilewright report`: what a database knows, as one HTML file."""

from __future__ import annotations

from pathlib import Path

import typer

from tilewright.cli.options import database_url, reading
from tilewright.errors import DatabaseError
from tilewright.report.page import render
from tilewright.support.files import write_whole
from tilewright.support.text import counted


def run(destination: Path, db: str | None) -> None:
    """Write the report."""
    with reading(db) as database:
        page, records = render(database, database_url(db)), counted(len(database), "record")
    try:
        write_whole(destination, page)
    except OSError as error:
        raise DatabaseError(f"cannot write the report {destination}: {error.strerror}") from error
    typer.echo(f"{destination}: {records}, {len(page) / 1024:.0f} KiB, needs nothing but a browser")
