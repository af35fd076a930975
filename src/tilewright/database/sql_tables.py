"""The tables of databases in SQL, in the words of SQLite, and the versions of them."""

from __future__ import annotations

from typing import Final

from tilewright.errors import DatabaseError
from tilewright.version import __version__

SCHEMA_VERSION: Final = 3
# Readers need nothing that later versions added.
READABLE_FROM: Final = 1

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
    features TEXT                -- JSON list
);
CREATE UNIQUE INDEX targets_once ON targets (target, description, fingerprint);

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
    schema INTEGER NOT NULL,     -- version that wrote it
    program TEXT                 -- hash of the measured program, hexadecimal
);
CREATE INDEX records_by_speed ON records (workload_id, valid, mean, target_id);
CREATE INDEX records_by_program ON records (workload_id, program);
CREATE INDEX records_by_task ON records (workload_id, target_id, failure, id, valid, mean);

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

# What version 3 added: how a task fared can be told without its records being read.
BY_TASK: Final = next(s for s in TABLES.splitlines() if "records_by_task" in s).rstrip(";")


def statements(text: str) -> list[str]:
    """The statements of a text, one by one."""
    return [statement for statement in text.split(";\n") if statement.strip()]


def refuse_newer(found: int, name: str) -> None:
    """Tables of a later version may mean something else."""
    if found > SCHEMA_VERSION:
        raise DatabaseError(
            f"{name} was written by a newer Tilewright: its schema is {found}, this version "
            f"({__version__}) reads up to {SCHEMA_VERSION}; upgrade Tilewright, or export the "
            "database to JSON with the newer version"
        )
