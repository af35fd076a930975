"""The tables of an SQLite database, and how older files become newer ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Final

from tilewright.errors import DatabaseError
from tilewright.version import __version__

SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x544C5752  # "TLWR", so that a file says whose it is

Migration = Callable[[sqlite3.Connection], None]
# From the version that is the key to the next one.
MIGRATIONS: Mapping[int, Migration] = {}

# Ids are never given twice (AUTOINCREMENT), because readers remember what they stand for.
TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE workloads (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,          -- for people, as `matmul 128x128x128`
    module TEXT NOT NULL         -- JSON of the program
);
CREATE TABLE workload_hashes (   -- one for each equality of programs
    mode TEXT NOT NULL,
    hash TEXT NOT NULL,          -- hexadecimal
    workload_id INTEGER NOT NULL REFERENCES workloads(id),
    PRIMARY KEY (mode, hash, workload_id)
) WITHOUT ROWID;

CREATE TABLE targets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    target TEXT NOT NULL,        -- JSON as it was given
    description TEXT NOT NULL,   -- JSON with what was detected
    fingerprint TEXT,
    features TEXT,               -- JSON list
    UNIQUE (target, description, fingerprint)
);

CREATE TABLE records (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key BLOB NOT NULL UNIQUE,    -- committing a record again changes nothing
    workload_id INTEGER NOT NULL REFERENCES workloads(id),
    target_id INTEGER REFERENCES targets(id),
    valid INTEGER NOT NULL,      -- it ran and may be used
    mean REAL NOT NULL,          -- seconds; 1e10: it failed
    run_secs TEXT,               -- JSON list
    trace TEXT NOT NULL,         -- JSON as TVM writes it
    trace_digest BLOB NOT NULL,
    args_info TEXT,              -- JSON
    failure TEXT,
    error_msg TEXT,
    protocol TEXT,               -- how it was measured
    seed INTEGER,
    round INTEGER,
    extra TEXT NOT NULL,         -- JSON object
    schema INTEGER NOT NULL      -- version that wrote it
);
CREATE INDEX records_by_speed ON records (workload_id, valid, mean, target_id);

CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    started REAL NOT NULL,
    finished REAL,
    seed INTEGER,
    target TEXT NOT NULL,
    options TEXT NOT NULL        -- JSON object
);
CREATE TABLE trials (
    run_id INTEGER NOT NULL REFERENCES runs(id),
    task TEXT NOT NULL,
    number INTEGER NOT NULL,
    round INTEGER,
    mean REAL,                   -- NULL: it failed
    failure TEXT,
    prediction REAL,
    elapsed REAL,
    record_id INTEGER,
    PRIMARY KEY (run_id, task, number)
) WITHOUT ROWID;
CREATE TABLE funnel (
    run_id INTEGER NOT NULL REFERENCES runs(id),
    task TEXT NOT NULL,
    round INTEGER NOT NULL,
    stage TEXT NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (run_id, task, round, stage, reason)
) WITHOUT ROWID;
"""


def prepare(connection: sqlite3.Connection, path: str, read_only: bool) -> None:
    """Make the tables of a new file, or bring those of an old one up to date."""
    if not read_only and version_of(connection) == 0 and _is_empty(connection):
        create(connection)
    check_owner(connection, path)
    refuse_foreign_parts(connection, path)
    found = version_of(connection)
    if found > SCHEMA_VERSION:
        raise DatabaseError(
            f"{path} was written by a newer Tilewright: its schema is {found}, this version "
            f"({__version__}) reads up to {SCHEMA_VERSION}; upgrade Tilewright, or export the "
            "database to JSON with the newer version"
        )
    if found < SCHEMA_VERSION:
        if read_only:
            raise DatabaseError(
                f"{path} has the older schema {found}; open it once for writing to bring it up to "
                "date"
            )
        migrate(connection, found, SCHEMA_VERSION, MIGRATIONS)


def migrate(
    connection: sqlite3.Connection, found: int, wanted: int, migrations: Mapping[int, Migration]
) -> None:
    """Bring a file from one version to another, all steps or none."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        # Another process may have been quicker.
        for version in range(max(found, version_of(connection)), wanted):
            migrations[version](connection)
            connection.execute(f"PRAGMA user_version = {version + 1}")
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
    connection.execute("BEGIN EXCLUSIVE")
    try:
        if _is_empty(connection):  # another process may have been quicker
            for statement in TABLES.split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("INSERT INTO meta VALUES ('made_by', ?)", (__version__,))
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
