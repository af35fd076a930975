"""The events of a tuning run as JSON lines beside its records, for who looks on.

Beside a database in a file they are a file, too; on a server they are a table.

A line has the time, the machine, its process and load, the name of the event, and those of its
fields that are plain values. Several runs may write to one file; `tilewright serve` follows it.
"""

from __future__ import annotations

import logging
import os
import platform
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import msgspec

from tilewright.database import Database, SQLiteDatabase
from tilewright.tune.events import Event, NodeSeen, Observer, TuningStarted
from tilewright.tune.logs import log_file

SUFFIX = ".events.jsonl"
_MOST_BYTES = 16 << 20  # a run that finds more begins the file again
_CAPITALS = re.compile(r"(?<!^)(?=[A-Z])")


def event_log_path(database: Path) -> Path:
    """The log of the runs that write to a database in a file."""
    return database.with_suffix(SUFFIX)


@contextmanager
def writing_events(observers: list[Observer], database: Database) -> Iterator[None]:
    """Write the events of a run down while it lasts, if its database has a place for them."""
    log = _EventFile(database) if isinstance(database, SQLiteDatabase) else database.event_log()
    if log is None:
        yield
        return
    write = log.write

    def tell(event: Event) -> None:
        write(msgspec.json.encode({**_origin(event), **_facts(event)}).decode())

    observers.append(tell)
    try:
        yield
    finally:
        observers.remove(tell)
        log.close()


class _EventFile:
    """The file beside a database in a file."""

    def __init__(self, database: SQLiteDatabase) -> None:
        path = event_log_path(Path(database.path))
        if path.exists() and path.stat().st_size > _MOST_BYTES:
            path.unlink()
        self._file = log_file(path)

    def write(self, line: str) -> None:
        self._file.handle(logging.makeLogRecord({"msg": line}))

    def close(self) -> None:
        self._file.close()


def _origin(event: Event) -> dict[str, object]:
    origin = {"time": round(time.time(), 3), "node": platform.node(), "pid": os.getpid()}
    if isinstance(event, NodeSeen):  # another machine
        return origin
    return {**origin, "load": round(os.getloadavg()[0] / (os.cpu_count() or 1), 3)}


def _facts(event: Event) -> dict[str, object]:
    kind = _CAPITALS.sub("_", type(event).__name__).lower()
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    plain = {name: value for name, value in values.items() if isinstance(value, (str, int, float))}
    if not isinstance(event, TuningStarted):
        return {"event": kind, **plain}
    tasks = [task.ctx.task_name for task in event.tasks]
    return {"event": kind, **plain, "run": event.tasks[0].run, "tasks": tasks}
