"""The work of `tilewright db`: look at databases, and move records between them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import typer

from tilewright.cli.arguments import DEFAULT_DATABASE
from tilewright.cli.console import make_console, print_json
from tilewright.cli.options import database_url, reading, writing
from tilewright.cli.tables import print_table
from tilewright.database import Database, postgres_schema, transfer, upgrade_database
from tilewright.database.postgres_connection import PostgresConnection
from tilewright.database.record_ids import record_id
from tilewright.errors import DatabaseError, TilewrightError
from tilewright.report.collect import TaskSummary, collect
from tilewright.report.units import gflops, percent, seconds
from tilewright.support.text import counted, printable

_HEADER = ("task", "target", "records", "failed", "best", "GFLOPS", "of roofline", "record")
_SUFFIXES = {".json": "json", ".csv": "csv", ".parquet": "parquet", "": "tvm"}


def list_tasks(db: str | None, *, as_json: bool) -> None:
    """List the tasks of a database with their best records."""
    with reading(db) as database:
        tasks = sorted(collect(database), key=lambda task: task.title)
        total = len(database)
    if as_json:
        print_json([_as_json(task) for task in tasks])
        return
    console = make_console()
    if tasks:
        print_table(console, _HEADER, map(_row, tasks))
    numbers = f"{counted(total, 'record')} of {counted(len(tasks), 'task')}"
    console.print(f"{numbers} in {database_url(db)}")


def _row(task: TaskSummary) -> Sequence[str]:
    return (
        task.title,
        task.target,
        str(task.records),
        str(task.failed),
        seconds(task.best_secs),
        gflops(task.flop, task.best_secs),
        percent(task.share),
        "-" if task.best is None else record_id(task.best),
    )


def _as_json(task: TaskSummary) -> dict[str, object]:
    speed = None if not task.best_secs else task.flop / task.best_secs / 1e9
    return {
        "task": task.name,
        "labels": task.labels,
        "target": task.target,
        "records": task.records,
        "failed": task.failed,
        "best_secs": task.best_secs,
        "gflops": speed,
        "share_of_roofline": task.share,
        "record": None if task.best is None else record_id(task.best),
    }


def merge(destination: str, sources: Sequence[str]) -> None:
    """Copy all records of some databases into another one; doing it twice changes nothing."""
    with ExitStack() as opened:
        # All of them, before anything is written.
        databases = [opened.enter_context(reading(url)) for url in sources]
        into = opened.enter_context(writing(destination))
        for url, source in zip(sources, databases, strict=True):
            added = transfer.merge(into, source)
            _tell_copied(url, source, added, destination)


def _tell_copied(url: str, source: Database, added: int, destination: str) -> None:
    numbers = f"{counted(len(source), 'record')}, {added} new in {database_url(destination)}"
    typer.echo(f"{database_url(url)}: {numbers}")


def copy(source: str, destination: str) -> None:
    """Copy a database; the same command again completes a copy that was stopped."""
    with reading(source) as database, writing(destination) as into:
        _tell_copied(source, database, transfer.copy(database, into), destination)


def init(url: str, *, with_roles: bool) -> None:
    """Make the tables and the roles of a database on a server."""
    shown = database_url(url)
    if url.partition(":")[0] not in ("postgresql", "postgres"):
        raise DatabaseError(
            f"{shown} needs no preparation; db init is for postgresql://USER@HOST/NAME"
        )
    with contextlib.closing(PostgresConnection(url)) as server:
        is_new = postgres_schema.initialize(server, with_roles=with_roles)
        names = postgres_schema.role_names(server)
    typer.echo(f"{shown}: {'tables made' if is_new else 'its tables are there'}")
    if with_roles:
        may = zip(names.values(), ("look", "add records", "delete and upgrade"), strict=True)
        typer.echo("roles to grant: " + ", ".join(f"{name} may {what}" for name, what in may))


def upgrade(db: str | None) -> None:
    """Bring the tables of a database up to date."""
    before, after = upgrade_database(db or DEFAULT_DATABASE)
    done = f"schema {before} -> {after}" if before != after else f"up to date, schema {after}"
    typer.echo(f"{database_url(db)}: {done}")


def prune(db: str | None, top: int, *, ask: bool) -> None:
    """Delete all records except the best of each workload and target."""
    url = database_url(db)
    with reading(db) as database:  # which must exist
        number = counted(len(database), "record")
    if ask:
        if not sys.stdin.isatty():
            raise DatabaseError("pruning deletes records; add --yes to do it without being asked")
        typer.confirm(
            f"Delete all {number} in {url} except the best {top} of each task?", abort=True
        )
    with writing(db) as database:
        gone = transfer.prune(database, top)
        typer.echo(f"{counted(gone, 'record')} removed, {len(database)} left in {url}")


def export(destination: Path, db: str | None, format: str | None) -> None:
    """Write all records to a file for other programs, or to a directory for TVM."""
    chosen = format or _SUFFIXES.get(destination.suffix)
    if chosen is None:
        raise DatabaseError(
            f"{destination}: the suffix does not tell the format; use .json, .csv, .parquet, or "
            "--format"
        )
    with reading(db) as database:
        try:
            written = transfer.export(database, destination, chosen)
        except OSError as error:
            raise DatabaseError(f"cannot write {destination}: {error.strerror}") from error
    typer.echo(f"{counted(written, 'record')} of {database_url(db)} written to {destination}")


def import_records(source: Path, db: str | None) -> None:
    """Add the records of an export, of another database or of TVM's files."""
    if not source.exists():
        raise DatabaseError(f"there is nothing at {source}")
    with ExitStack() as opened:
        is_export = source.is_file() and source.suffix == ".json"
        other = None if is_export else opened.enter_context(reading(str(source)))
        into = opened.enter_context(writing(db))
        added = transfer.import_json(source, into) if other is None else transfer.merge(into, other)
    typer.echo(f"{counted(added, 'new record')} from {source} in {database_url(db)}")


def verify(db: str | None, *, replay: bool) -> int:
    """Check that every record can be read and its trace replayed; 1 if not."""
    with reading(db) as database:
        found = [str(problem) for problem in database.problems()]
        if replay:
            found += _not_replayable(database)
        total = f"{counted(len(database), 'record')} in {database_url(db)}"
    for line in found:
        typer.echo(printable(line, "\n"))
    typer.echo(f"{total}: {counted(len(found), 'problem') if found else 'no problems'}")
    return 1 if found else 0


def _not_replayable(database: Database) -> list[str]:
    found = []
    for record in database.get_all_tuning_records():
        try:
            if record.is_valid:
                record.as_measure_candidate()
        except TilewrightError as error:
            found.append(f"record {record_id(record)}: its trace cannot be replayed: {error}")
    return found
