"""Events of tuners in a table of the server, for who looks on from elsewhere.

A search does not wait for them: a thread with a connection of its own writes them, some at a time,
and what a server that went away did not get is lost. Each tuner deletes those that are long past.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from tilewright.database.postgres_connection import EVENTS, SCHEMA

KEPT = 50_000  # the last ones, of all tuners
_MOST_WAITING = 10_000
_TOGETHER = 200
_END_SECS = 2.0  # for the last ones, when a run ends
_PAUSE_SECS = 2.0  # after a failure
_WRITE = "INSERT INTO events (line) SELECT unnest(%s::text[])"
_FORGET = "DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - %s"


class PostgresEventLog:
    """Takes lines, and writes them when there is time."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._waiting: queue.Queue[str | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._write_all, daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Take a line; it is lost if there are too many."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(line)

    def close(self) -> None:
        """Wait a moment for the last lines to be written."""
        self._waiting.put(None)
        self._thread.join(_END_SECS)

    def _write_all(self) -> None:
        connection = None
        is_last = False
        while not is_last:
            lines, is_last = self._next_lines()
            try:
                if connection is None or connection.closed:
                    connection = self._opened()
                if lines:
                    connection.execute(_WRITE, (lines,))
                    connection.execute("SELECT pg_notify(%s, %s)", (SCHEMA, EVENTS))
            except Exception:  # whoever looks on misses something; nobody else does
                if not is_last:
                    time.sleep(_PAUSE_SECS)
        if connection is not None:
            connection.close()

    def _opened(self) -> Any:
        connection = self._connect()
        connection.execute("SET synchronous_commit TO off")  # nobody is told that it is kept
        connection.execute(_FORGET, (KEPT,))
        return connection

    def _next_lines(self) -> tuple[list[str], bool]:
        """Those that wait, at least one; and whether no more will come."""
        lines = [self._waiting.get()]
        while lines[-1] is not None and len(lines) < _TOGETHER:
            try:
                lines.append(self._waiting.get_nowait())
            except queue.Empty:
                break
        return [line for line in lines if line is not None], lines[-1] is None
