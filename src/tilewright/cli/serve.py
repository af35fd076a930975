"""`tilewright serve`: a database as a live page in a browser."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tilewright.cli.options import database_url, reading
from tilewright.database import Database, PostgresDatabase, SQLiteDatabase
from tilewright.database.postgres_connection import without_password
from tilewright.errors import ServeError
from tilewright.serve.access import PageAccess
from tilewright.serve.live_runs import event_reader
from tilewright.serve.snapshot import Watched

if TYPE_CHECKING:
    from starlette.applications import Starlette

_PATIENCE_SECS = 3.0  # with a server that went away; visitors wait for it
_END_SECS = 1  # for answers that are under way when it ends


def run(db: str | None, host: str, port: int, token: str | None) -> None:
    """Serve until Ctrl-C."""
    access = PageAccess.of(host, _secret(token))
    try:
        import uvicorn

        from tilewright.serve.app import make_app
    except ModuleNotFoundError as error:
        raise ServeError(
            f"`tilewright serve` needs the package {error.name}; install tilewright[serve]"
        ) from error
    with reading(db) as database:
        watched = _watched(database, without_password(database_url(db)))
        with _listening(host, port) as listener:
            address = f"http://{_written(host)}:{listener.getsockname()[1]}/"
            asks = "" if token is None else ", which asks for the token"
            typer.echo(f"{watched.source} at {address}{asks}; Ctrl-C ends it")
            app: Starlette = make_app(watched, access)
            config = uvicorn.Config(
                app, log_level="critical", timeout_graceful_shutdown=_END_SECS, server_header=False
            )
            with contextlib.suppress(KeyboardInterrupt):  # as it is meant to end
                uvicorn.Server(config).run([listener])


def _watched(database: Database, name: str) -> Watched:
    path = Path(database.path) if isinstance(database, SQLiteDatabase) else None
    if isinstance(database, PostgresDatabase):
        database.be_patient(_PATIENCE_SECS)
    watched = Watched(database, name, path, event_reader(database, path))
    watched.refresh()  # what is wrong with the database is said here and now
    return watched


def _secret(given: str | None) -> str | None:
    """The token itself; of a file its text, since command lines can be seen by others."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ServeError(f"--token {given}: the file cannot be read: {reason}") from error


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", None) or error).partition(" (while")[0]
        raise ServeError(
            f"cannot listen on {host} port {port}: {reason}; --port 0 takes a free port"
        ) from error


def _written(host: str) -> str:
    """A host as addresses have it."""
    return f"[{host}]" if ":" in host else host
