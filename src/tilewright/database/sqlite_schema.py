"""The tables of an SQLite file, and how older files become newer ones."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tilewright.database import sql_tables
from tilewright.errors import DatabaseError
from tilewright.version import __version__

APPLICATION_ID: Final = 0x544C5752  # "TLWR", so that a file says whose it is

Migration = Callable[[sqlite3.Connection], None]


def _add_programs(connection: sqlite3.Connection) -> None:
    """Version 2: the hash of the program that was measured, which `extra` has, can be found."""
    connection.execute("ALTER TABLE records ADD COLUMN program TEXT")
    connection.execute(
        "UPDATE records SET program = json_extract(extra, '$.candidate_hash') "
        "WHERE json_valid(extra) AND json_type(extra, '$.candidate_hash') = 'text'"
    )
    connection.execute("CREATE INDEX records_by_program ON records (workload_id, program)")


def _index_tasks(connection: sqlite3.Connection) -> None:
    """Version 3: how a task fared can be told without its records being read."""
    connection.execute(sql_tables.BY_TASK)


# From the version that is the key to the next one.
MIGRATIONS: Mapping[int, Migration] = {1: _add_programs, 2: _index_tasks}


def prepare(connection: sqlite3.Connection, path: str, read_only: bool) -> None:
    """Make the tables of a new file, or bring those of an old one up to date."""
    if not read_only and version_of(connection) == 0 and _is_empty(connection):
        create(connection)
    check_owner(connection, path)
    refuse_foreign_parts(connection, path)
    found = version_of(connection)
    sql_tables.refuse_newer(found, path)
    if found < sql_tables.SCHEMA_VERSION:
        if not read_only:
            migrate(connection, found, sql_tables.SCHEMA_VERSION, MIGRATIONS)
        elif found < sql_tables.READABLE_FROM:
            raise DatabaseError(
                f"{path} has the older schema {found}; `tilewright db upgrade {path}` brings it up "
                "to date"
            )


def migrate(
    connection: sqlite3.Connection, found: int, wanted: int, migrations: Mapping[int, Migration]
) -> None:
    """Bring a file from one version to another, all steps or none."""
    with _exclusively(connection):
        # Another process may have been quicker.
        for version in range(max(found, version_of(connection)), wanted):
            migrations[version](connection)
            connection.execute(f"PRAGMA user_version = {version + 1}")


@contextlib.contextmanager
def _exclusively(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is done inside, or nothing, while nobody else reads or writes."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the tables; 0 for an empty file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_owner(connection: sqlite3.Connection, path: str) -> None:
    """The file must be ours."""
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    if owner != APPLICATION_ID:
        raise DatabaseError(
            f"{path} is an SQLite database, but not one of Tilewright; choose another file"
        )


def refuse_foreign_parts(connection: sqlite3.Connection, path: str) -> None:
    """Views, triggers and virtual tables can do anything when a table is read or written."""
    found = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') "
        "OR sql LIKE 'CREATE VIRTUAL%' LIMIT 1"
    ).fetchone()
    if found is not None:
        raise DatabaseError(
            f"{path} holds the {found[0]} {found[1]!r}, which Tilewright did not make; use a copy "
            "without it"
        )


def _is_empty(connection: sqlite3.Connection) -> bool:
    return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]) == 0


def create(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file."""
    with _exclusively(connection):
        if _is_empty(connection):  # another process may have been quicker
            for statement in sql_tables.statements(sql_tables.TABLES):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {sql_tables.SCHEMA_VERSION}")
            connection.execute("INSERT INTO meta VALUES ('made_by', ?)", (__version__,))
