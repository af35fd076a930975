"""Opening a database by what a user writes: a path or a URL."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tilewright.database import postgres_schema
from tilewright.database.base import Database, databases
from tilewright.database.json_database import RECORD_FILE, WORKLOAD_FILE, JSONDatabase
from tilewright.database.memory import MemoryDatabase
from tilewright.database.sql_tables import SCHEMA_VERSION
from tilewright.database.sqlite import DEFAULT_NAME, SQLiteDatabase
from tilewright.errors import DatabaseError

_SQLITE_SUFFIXES = (".db", ".sqlite", ".sqlite3")


def open_database(
    url: str | Path,
    *,
    module_equality: str = "structural",
    read_only: bool = False,
    allow_unsafe: bool = False,
) -> Database:
    """Open a database; a file that does not exist yet is made unless `read_only` forbids it.

    Of a database whose author you trust, `allow_unsafe` uses records as they are: with steps that
    may change results (`unsafe_*`), and without comparing them with the plain program first.

    records.db, sqlite:///records.db   an SQLite file (four slashes for an absolute path)
    a directory, json:directory        TVM's two files, or the SQLite file of a work_dir
    postgresql://USER@HOST/NAME        a database on a server
    memory:                            nothing on disk
    kind:rest                          a kind that an installed package offers
    """
    database = _opened(str(url), module_equality, read_only)
    if allow_unsafe:
        database.allows_unsafe = True
    return database


def upgrade_database(url: str | Path) -> tuple[int, int]:
    """Bring the tables of a database up to date; the version they had, and the one they have."""
    text = str(url)
    if text.partition(":")[0] in ("postgresql", "postgres"):
        return postgres_schema.upgrade(text), SCHEMA_VERSION
    with contextlib.closing(open_database(text, read_only=True)) as database:
        if not isinstance(database, SQLiteDatabase):
            raise DatabaseError(f"{text} has no tables; SQLite's and PostgreSQL's can be upgraded")
        path, before = database.path, database.schema_version
    SQLiteDatabase(path).close()
    return before, SCHEMA_VERSION


def _opened(text: str, module_equality: str, read_only: bool) -> Database:
    scheme, colon, rest = text.partition(":")
    if not colon or len(scheme) < 2:  # one letter is a drive
        return _open_path(Path(text), module_equality, read_only)
    match scheme:
        case "memory":
            return MemoryDatabase(module_equality)
        case "sqlite":
            path = rest.removeprefix("///")
            return SQLiteDatabase(path, module_equality=module_equality, read_only=read_only)
        case "json":
            return _open_json(Path(rest), module_equality, read_only)
    if scheme not in databases:
        raise DatabaseError(
            f"unknown kind of database {scheme!r} in {text!r}; use a path, sqlite:///PATH, "
            "postgresql://HOST/NAME, json:DIRECTORY or memory:"
        )
    made: object = databases.create(
        scheme, text, module_equality=module_equality, read_only=read_only
    )
    if not isinstance(made, Database):
        raise DatabaseError(f"{scheme!r} is not a database")
    return made


def _open_json(directory: Path, module_equality: str, read_only: bool) -> Database:
    return JSONDatabase(
        work_dir=directory, module_equality=module_equality, allow_missing=not read_only
    )


def _open_path(path: Path, module_equality: str, read_only: bool) -> Database:
    if path.is_dir():
        if (path / WORKLOAD_FILE).exists() or (path / RECORD_FILE).exists():
            return _open_json(path, module_equality, read_only)
        if not (path / DEFAULT_NAME).exists():
            raise DatabaseError(
                f"there is no database in the directory {path}; write {path / DEFAULT_NAME} or "
                f"json:{path} to make one"
            )
        path = path / DEFAULT_NAME
    elif not path.exists() and path.suffix not in _SQLITE_SUFFIXES:
        raise DatabaseError(
            f"there is no database at {path}; a new one is made if the name ends in "
            f"{', '.join(_SQLITE_SUFFIXES)}"
        )
    return SQLiteDatabase(path, module_equality=module_equality, read_only=read_only)
