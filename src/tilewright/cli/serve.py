"""`tilewright serve`: a database as a live page in a browser."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tilewright.cli.options import database_url, reading
from tilewright.database import SQLiteDatabase
from tilewright.errors import ServeError
from tilewright.serve.access import PageAccess
from tilewright.serve.live_runs import EventReader
from tilewright.serve.snapshot import Watched
from tilewright.tune.event_log import event_log_path

if TYPE_CHECKING:
    from starlette.applications import Starlette

_END_SECS = 1  # for answers that are under way when it ends


def run(db: str | None, host: str, port: int, token: str | None) -> None:
    """Serve until Ctrl-C."""
    access = PageAccess.of(host, token)
    try:
        import uvicorn

        from tilewright.serve.app import make_app
    except ModuleNotFoundError as error:
        raise ServeError(
            f"`tilewright serve` needs the package {error.name}; install tilewright[serve]"
        ) from error
    with reading(db) as database:
        path = Path(database.path) if isinstance(database, SQLiteDatabase) else None
        events = EventReader(None if path is None else event_log_path(path))
        watched = Watched(database, database_url(db), path, events)
        with _listening(host, port) as listener:
            address = f"http://{_written(host)}:{listener.getsockname()[1]}/"
            asks = "" if token is None else ", which asks for the token"
            typer.echo(f"{database_url(db)} at {address}{asks}; Ctrl-C ends it")
            app: Starlette = make_app(watched, access)
            config = uvicorn.Config(
                app, log_level="critical", timeout_graceful_shutdown=_END_SECS, server_header=False
            )
            with contextlib.suppress(KeyboardInterrupt):  # as it is meant to end
                uvicorn.Server(config).run([listener])


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
