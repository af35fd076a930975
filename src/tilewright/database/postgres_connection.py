"""A connection to PostgreSQL that comes back: what was lost with the old one is done again."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tilewright.database.sql_store import SQLStore
from tilewright.errors import DatabaseError

SCHEMA = "tilewright"  # where our tables are, and the channel of news about them
EVENTS = "events"  # said there by tuners that do something, and have committed nothing
RECONNECT_SECONDS = 60.0  # how long to wait for a server that went away
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
# A dead network is noticed in about a minute, where the URL says nothing else.
_DEFAULTS = {"connect_timeout": "10", "tcp_user_timeout": "60000", "keepalives_idle": "30"}
# Failures of a moment: deadlocks and conflicts, a server that shuts down, starts or is full.
_PASSING = frozenset({"40001", "40P01", "57P01", "57P02", "57P03", "53300"})
_ALONE = 0x544C5752  # the number of the lock for rows that must be there once

_T = TypeVar("_T")


def psycopg() -> Any:
    """The library, whose types are not ours to check: it need not be installed."""
    try:
        import psycopg
    except ImportError as error:
        raise DatabaseError(
            "a PostgreSQL database needs the package psycopg: pip install 'tilewright[postgres]'"
        ) from error
    return psycopg


def without_password(url: str) -> str:
    """A URL as it may be shown."""
    if not url.startswith(("postgres:", "postgresql:")):
        return url
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    options = [each for each in parts.query.split("&") if not each.startswith("password=")]
    query = f"?{'&'.join(options)}" if any(options) else ""
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{host}{parts.path}{query}"


class PostgresConnection(SQLStore):
    """A server. What others say is kept once somebody listens."""

    def __init__(self, url: str, read_only: bool = False, *, only_waits: bool = False) -> None:
        super().__init__(without_password(url), read_only)
        self.url = url
        self._only_waits = only_waits  # for what others say: one statement hears it, or `wait`
        self.patience = RECONNECT_SECONDS
        self._library = psycopg()
        self.errors = (self._library.Error,)  # type: ignore[misc] # known once it is loaded
        self._is_closed = self._listens = False
        self._news: set[str] = set()
        self.heard = 0  # how often others said that they committed something
        self._losses = 0  # of connections that listened
        self._losses_known: dict[str, int] = {}  # when news of it were last asked for
        try:
            self.connection = self._opened()
        except self.errors as error:
            raise DatabaseError(f"cannot open the database {self.name}: {_line(error)}") from error

    def connect(self) -> Any:
        """Another connection to the same database, which is the caller's to use and to close."""
        parts = {**_DEFAULTS, **self._library.conninfo.conninfo_to_dict(self.url)}
        made = self._library.connect(autocommit=True, **parts)
        try:
            made.execute(f"SET search_path TO {SCHEMA}, pg_temp")
            if self.read_only:
                made.execute("SET default_transaction_read_only TO on")
        except BaseException:
            made.close()
            raise
        return made

    def _opened(self) -> Any:
        made = self.connect()
        if not self._only_waits:
            made.add_notify_handler(self._hear)
        if self._listens:
            try:
                made.execute(f"LISTEN {SCHEMA}")
            except BaseException:
                made.close()
                raise
            self._losses += 1
        return made

    def close(self) -> None:
        self._is_closed = True
        self.connection.close()

    # --- news -------------------------------------------------------------------------------

    def listen(self) -> None:
        """From now on hear what others say; any statement lets it in."""
        if not self._listens:
            self.rows(f"LISTEN {SCHEMA}")
            self._listens = True

    def _hear(self, notice: Any) -> None:
        if notice.payload != EVENTS and notice.pid != self.connection.info.backend_pid:
            self._news.add(notice.payload)
            self.heard += 1

    def wait(self, secs: float) -> bool:
        """Wait until somebody says something, or for so long; False if that cannot be heard.

        Nothing else can be asked meanwhile: whoever waits has a connection for it.
        """
        with self.lock:
            try:
                if self.connection.closed:
                    self._come_back()
                self.listen()
                for notice in self.connection.notifies(timeout=secs, stop_after=1):
                    self._hear(notice)
            except Exception as error:
                if not isinstance(error, (DatabaseError, *self.errors)):
                    raise
                return False
        return True

    def take_news(self, of: set[str]) -> bool:
        """Whether somebody said one of these since the last time, or could not be heard."""
        missed = any(self._losses_known.get(each, 0) < self._losses for each in of)
        found = missed or bool(of & self._news)
        self._losses_known.update(dict.fromkeys(of, self._losses))
        self._news -= of
        return found

    # --- statements -------------------------------------------------------------------------

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        with self.lock:
            if self.in_transaction:
                return self._fetch(statement, parameters)
            return self._patiently(lambda: self._fetch(statement, parameters))

    def _fetch(self, statement: str, parameters: Sequence[object]) -> list[Any]:
        cursor = self._cursor(statement, parameters)
        return [] if cursor.description is None else cursor.fetchall()

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> int:
        return int(self._cursor(statement, parameters).rowcount)

    def _cursor(self, statement: str, parameters: Sequence[object]) -> Any:
        values = [_storable(value) for value in parameters]
        return self.connection.execute(statement.replace("?", "%s"), values)

    def _run(self, statement: str) -> None:
        self.connection.execute(statement)

    def _roll_back(self) -> None:
        if not self.connection.closed and self._depth:
            self.connection.execute("ROLLBACK")

    def alone(self) -> None:
        self.execute("SELECT pg_advisory_xact_lock(?)", (_ALONE,))

    def continue_ids(self, table: str) -> None:
        self.execute(
            f"SELECT setval(pg_get_serial_sequence(?, 'id'), max(id)) FROM {table}", (table,)
        )

    # --- a server that goes away and comes back ---------------------------------------------

    def atomically(self, work: Callable[[], _T]) -> _T:
        with self.lock:
            if self.in_transaction:
                return super().atomically(work)
            return self._patiently(lambda: super(PostgresConnection, self).atomically(work))

    def _patiently(self, work: Callable[[], _T]) -> _T:
        """What a function returns; it is called again after failures that pass."""
        give_up, pause = time.monotonic() + self.patience, _FIRST_PAUSE
        while True:
            try:
                if self.connection.closed:
                    self._come_back()
                return work()
            except Exception as error:
                cause = error.__cause__ if isinstance(error, DatabaseError) else error
                if not self._is_passing(cause):
                    if isinstance(error, self.errors):
                        raise self.failure(error) from error
                    raise
                if time.monotonic() > give_up:
                    raise self._lost(cause) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _come_back(self) -> None:
        if self._is_closed:
            raise DatabaseError(f"the database {self.name} was closed; open it again")
        self.connection = self._opened()

    def _is_passing(self, error: BaseException | None) -> bool:
        if not isinstance(error, self._library.OperationalError):
            return False
        return self.connection.closed or error.sqlstate in _PASSING

    def _lost(self, error: BaseException | None) -> DatabaseError:
        return DatabaseError(
            f"the connection to {self.name} was lost and did not come back within "
            f"{self.patience:.0f} s ({_line(error)}); what was committed is kept, the same "
            "command goes on from there"
        )

    def failure(self, error: Exception) -> DatabaseError:
        known = self._failures.get(type(error))
        told = f"the database {self.name} cannot be used: {_line(error)}"
        return DatabaseError(told if known is None else f"{told}; {known}")

    @cached_property
    def _failures(self) -> dict[type, str]:
        errors = self._library.errors
        return {
            errors.InsufficientPrivilege: "ask its owner for the role that may, of those that "
            "`tilewright db init` made",
            errors.ReadOnlySqlTransaction: "it was opened read-only",
            errors.UndefinedTable: "`tilewright db init` makes the tables",
        }


def _storable(value: object) -> object:
    """A value as PostgreSQL takes it; its texts have no zero bytes and no halves of characters."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, str):
        value = value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return value


def _line(error: object) -> str:
    return " ".join(str(error).split())
