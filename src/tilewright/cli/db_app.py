"""`tilewright db`: the commands; their work is in `db.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.arguments import DatabaseOption, JsonOption, argument, option, work_of

app = typer.Typer(no_args_is_help=True, help="Inspect databases and move records between them.")


@app.command()
def ls(db: DatabaseOption = None, json: JsonOption = False) -> None:
    """List the tasks of a database with their best records."""
    work_of("db").list_tasks(db, as_json=json)


@app.command()
def merge(
    destination: Annotated[str, argument("INTO", "Where the records go.")],
    sources: Annotated[list[str], argument("FROM...", "Databases to copy.")],
) -> None:
    """Copy all records of some databases into another one; doing it twice changes nothing."""
    work_of("db").merge(destination, sources)


@app.command()
def copy(
    source: Annotated[str, argument("FROM", "The database to copy.")],
    destination: Annotated[str, argument("TO", "Where everything goes.")],
) -> None:
    """Copy a database with its runs; the same command again completes a copy that was stopped."""
    work_of("db").copy(source, destination)


@app.command()
def init(
    url: Annotated[str, argument("URL", "postgresql://USER@HOST/NAME.")],
    roles: Annotated[
        bool, option("--roles/--no-roles", "Make the roles reader, tuner and owner.")
    ] = True,
) -> None:
    """Make the tables of a PostgreSQL database, and roles that may read, tune or own it."""
    work_of("db").init(url, with_roles=roles)


@app.command()
def upgrade(
    db: Annotated[str | None, argument("URL", "[default: the one of this directory]")] = None,
) -> None:
    """Bring the tables of an SQLite or PostgreSQL database up to date with this version."""
    work_of("db").upgrade(db)


@app.command()
def prune(
    db: DatabaseOption = None,
    top: Annotated[int, option("--top K", "How many records to keep of each task.")] = 1,
    yes: Annotated[bool, option("--yes -y", "Do not ask.")] = False,
) -> None:
    """Delete all records except the best of each workload and target."""
    work_of("db").prune(db, top, ask=not yes)


@app.command()
def export(
    destination: Annotated[Path, argument("FILE", "Where to write.")],
    db: DatabaseOption = None,
    format: Annotated[
        str | None,
        option(
            "--format FORMAT",
            "json, csv, parquet, tvm or tvm-0.25 (a directory) [default: by the suffix of FILE]",
        ),
    ] = None,
) -> None:
    """Write all records to a file for other programs, or to a directory for TVM."""
    work_of("db").export(destination, db, format)


@app.command("import")
def import_(
    source: Annotated[Path, argument("FROM", "A .json export, a database, TVM's directory.")],
    db: DatabaseOption = None,
) -> None:
    """Add the records of an export, of another database or of TVM's files."""
    work_of("db").import_records(source, db)


@app.command()
def verify(
    db: DatabaseOption = None,
    replay: Annotated[
        bool, option("--replay/--no-replay", "Replay the traces of valid records.")
    ] = True,
) -> None:
    """Check that every record can be read and its trace replayed; ends with 1 if not."""
    raise typer.Exit(work_of("db").verify(db, replay=replay))
