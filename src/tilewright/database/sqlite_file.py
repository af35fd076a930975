"""An SQLite file as we use it: opened safely, read by many, written in whole transactions.

Of a damaged file the rows that can still be read are copied into a database in memory, where
everything works again but writing to the file.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tilewright.database import sqlite_schema
from tilewright.database.sql_store import SQLStore
from tilewright.database.stored_record import Problem, reading_row, usable_module, workload_hashes
from tilewright.errors import DatabaseError, StoredDataError
from tilewright.ir.json import load_json

BUSY_SECONDS = 60.0  # how long to wait for another writer
# File systems whose locks cannot be trusted by several machines.
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smbfs", "smb3", "fuse.sshfs", "afs", "ceph"})
_MOUNTS = Path("/proc/self/mounts")


# What SQLite reports; Python fails to decode a report that quotes damaged text.
SQLITE_ERRORS = (sqlite3.Error, UnicodeError)


class SQLiteFile(SQLStore):
    """A file. When it turns out to be damaged, what can be read of it is copied into memory and
    used from there; `problems` says what is missing.
    """

    begin = "BEGIN IMMEDIATE"
    errors = (sqlite3.Error,)

    def __init__(
        self,
        path: str,
        read_only: bool = False,
        allow_missing: bool = True,
        modes: Sequence[str] = (),
        connection: sqlite3.Connection | None = None,
    ) -> None:
        super().__init__(path, read_only)
        self.path = path
        self.is_damaged = False
        self._modes = modes
        if (read_only or not allow_missing) and not Path(path).exists():
            raise DatabaseError(f"there is no database at {path}")
        self.connection = connection or self._open()

    def _open(self) -> sqlite3.Connection:
        if not self.read_only:
            refuse_network_file_system(self.path, _MOUNTS)
        connection = None
        try:
            connection = self._connect("ro" if self.read_only else "rwc")
            sqlite_schema.prepare(connection, self.path, self.read_only)
        except (*SQLITE_ERRORS, DatabaseError) as error:
            if connection is not None:
                connection.close()
            if isinstance(error, DatabaseError):
                raise
            if not _is_damage(error):
                raise DatabaseError(f"cannot open the database {self.path}: {error}") from error
            return self._salvaged()
        return connection

    def _connect(self, mode: str, is_damaged: bool = False) -> sqlite3.Connection:
        uri = f"file:{quote(str(Path(self.path).absolute()))}?mode={mode}"
        connection = sqlite3.connect(
            uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        _harden(connection)
        if is_damaged:
            # Else SQLite refuses a file that is shorter than its first page says.
            connection.execute("PRAGMA writable_schema = ON")
        elif sys.version_info >= (3, 12):  # earlier versions of Python cannot ask SQLite for it
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
        if mode == "ro":
            return self._as_reader(connection, uri)
        connection.execute("PRAGMA journal_mode = WAL")
        # A commit that has returned survives not only our death but that of the machine.
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _as_reader(self, connection: sqlite3.Connection, uri: str) -> sqlite3.Connection:
        try:
            connection.execute("PRAGMA schema_version")
        except sqlite3.OperationalError:
            # Nobody can write where we may not make the files that writers share with readers.
            log = Path(f"{self.path}-wal")
            if log.exists() and log.stat().st_size:
                raise
            connection.close()
            connection = sqlite3.connect(
                f"{uri}&immutable=1", uri=True, isolation_level=None, check_same_thread=False
            )
            _harden(connection)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _salvaged(self) -> sqlite3.Connection:
        damaged = None
        try:
            damaged = self._connect("ro", is_damaged=True)
            copy, self.problems = salvage(damaged, self._modes)
            found = copy.execute("SELECT count(*) FROM workloads").fetchone()[0]
        except SQLITE_ERRORS as error:
            raise self._nothing_left(error) from error
        finally:
            if damaged is not None:
                damaged.close()
        if not found:
            copy.close()
            raise self._nothing_left("its workloads are lost")
        self.is_damaged = self.read_only = True
        return copy

    def _nothing_left(self, reason: object) -> DatabaseError:
        return StoredDataError(
            f"the database {self.path} is damaged and nothing in it can be used: {reason}"
        )

    def close(self) -> None:
        self.connection.close()

    # --- reading ----------------------------------------------------------------------------

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        with self.lock:
            try:
                return self.connection.execute(statement, parameters).fetchall()
            except SQLITE_ERRORS as error:
                if not _is_damage(error) or self._depth or self.is_damaged:
                    raise self.failure(error) from error
            self.connection.close()
            self.connection = self._salvaged()
            return self.rows(statement, parameters)

    def failure(self, error: Exception) -> DatabaseError:
        if _is_damage(error):
            return StoredDataError(
                f"the database {self.path} is damaged ({error}); copy what can be read into a new "
                "one with `merge`"
            )
        if "locked" in str(error):
            return DatabaseError(
                f"another process has been writing to the database {self.path} for more than "
                f"{BUSY_SECONDS:.0f} s; wait for it, or give each its own file and `merge` them"
            )
        return DatabaseError(f"the database {self.path} cannot be used: {error}")

    # --- writing ----------------------------------------------------------------------------

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> int:
        return self.connection.execute(statement, parameters).rowcount

    def _run(self, statement: str) -> None:
        self.connection.execute(statement)

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def reclaim(self) -> None:
        self.rows("VACUUM")

    def refuse_read_only(self) -> None:
        """Say why nothing can be written."""
        if self.is_damaged:
            raise DatabaseError(
                f"the database {self.path} is damaged and can only be read; copy what is left "
                "into a new one with `merge`"
            )
        super().refuse_read_only()


def _harden(connection: sqlite3.Connection) -> None:
    """The file may come from anybody: what its schema says is not carried out, pages are checked.

    A text that is none stays bytes, which no reader of the row takes for text.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 0")
    connection.text_factory = _text


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _is_damage(error: BaseException) -> bool:
    return isinstance(error, UnicodeError) or "malformed" in str(error)


def refuse_network_file_system(path: str, mounts: Path) -> None:
    """SQLite's log needs shared memory, which machines do not share."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return  # no such list on this system
    place = Path(path).absolute().parent
    best = ("", "")
    for line in lines:
        _, mount, kind, *_ = line.split(" ")
        mount = mount.replace("\\040", " ")
        if place.is_relative_to(mount) and len(mount) >= len(best[0]):
            best = mount, kind
    if best[1] in _NETWORK:
        raise DatabaseError(
            f"{path} is on a network file system ({best[1]}), where SQLite can lose data; put the "
            "database on a local disk, or use TVM's JSON files (json:DIRECTORY)"
        )


_NUMBERED = ("workloads", "targets", "records", "runs")
_OTHERS = ("meta", "state", "trials", "funnel")
_LARGEST_GAP = 1000  # ids are given in order, so a long gap is the end


def salvage(
    damaged: sqlite3.Connection, modes: Iterable[str]
) -> tuple[sqlite3.Connection, list[Problem]]:
    """A database in memory with all rows that can be read, and what cannot."""
    copy = in_memory()
    copy.execute("DELETE FROM meta")
    problems: list[Problem] = []
    for table in _NUMBERED:
        _copy(copy, table, _numbered_rows(damaged, table, problems))
    for table in _OTHERS:
        _copy(copy, table, _leading_rows(damaged, table, problems))
    _index_workloads(copy, modes)
    return copy, problems


def in_memory() -> sqlite3.Connection:
    """An empty database that lies in no file."""
    made = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    sqlite_schema.create(made)
    return made


def _copy(copy: sqlite3.Connection, table: str, rows: Iterable[tuple[object, ...]]) -> None:
    known = [column[1] for column in copy.execute(f"PRAGMA table_info({table})")]
    for row in rows:
        columns = ", ".join(known[: len(row)])  # an older file has fewer
        marks = ", ".join("?" * len(row))
        copy.execute(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", row)


def _numbered_rows(
    damaged: sqlite3.Connection, table: str, problems: list[Problem]
) -> Iterator[tuple[object, ...]]:
    row_id, gap = 1, 0
    unreadable: list[Problem] = []
    while gap < _LARGEST_GAP:
        try:
            row = damaged.execute(f"SELECT * FROM {table} WHERE id = ?", (row_id,)).fetchone()
        except SQLITE_ERRORS as error:
            row = None
            unreadable.append(Problem(table, row_id, str(error)))
        if row is not None:
            problems += unreadable  # what comes after the last row is the end, not a loss
            unreadable.clear()
            yield row
        gap = 0 if row is not None else gap + 1
        row_id += 1
    problems += _lost_at_the_end(unreadable, _last_id(damaged, table))


def _lost_at_the_end(unreadable: list[Problem], last_id: int) -> list[Problem]:
    """The end of a table looks like lost rows, unless we know the last id."""
    if last_id or not unreadable:
        return [problem for problem in unreadable if problem.row <= last_id]
    first = unreadable[0]
    reason = f"this row and all after it cannot be read: {first.reason}"
    return [Problem(first.table, first.row, reason)]


def _last_id(damaged: sqlite3.Connection, table: str) -> int:
    """The last id that was given; 0 if even that is lost."""
    try:
        row = damaged.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    except SQLITE_ERRORS:
        return 0
    return 0 if row is None else int(row[0])


def _leading_rows(
    damaged: sqlite3.Connection, table: str, problems: list[Problem]
) -> Iterator[tuple[object, ...]]:
    try:
        yield from damaged.execute(f"SELECT * FROM {table}")
    except SQLITE_ERRORS as error:
        problems.append(Problem(table, 0, f"only its beginning could be read: {error}"))


def _index_workloads(copy: sqlite3.Connection, modes: Iterable[str]) -> None:
    for row_id, module in copy.execute("SELECT id, module FROM workloads").fetchall():
        try:
            with reading_row("workloads", row_id):
                hashes = workload_hashes(usable_module(load_json(module)), modes)
        except StoredDataError:
            continue  # whoever loads it will say so
        rows = [(mode, value, row_id) for mode, value in hashes.items()]
        copy.executemany("INSERT INTO workload_hashes VALUES (?, ?, ?)", rows)
