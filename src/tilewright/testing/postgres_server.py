"""A PostgreSQL server for tests, on a socket of its own, that may be killed and started again."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.database import postgres_schema
from tilewright.database.postgres_connection import PostgresConnection
from tilewright.errors import DatabaseError

_PLACES = "/usr/lib/postgresql/*/bin"  # of the distribution's packages
_START_SECONDS = 60
_OWNER = "postgres"  # of the server's data and databases


def programs() -> Path | None:
    """Where PostgreSQL's programs are, the newest ones."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    places = sorted(Path("/").glob(_PLACES.lstrip("/")), key=lambda place: int(place.parent.name))
    return places[-1] if places else None


def why_missing() -> str:
    """Why there can be no server here; empty if there can."""
    try:
        import psycopg  # noqa: F401 - whether it is there
    except ImportError:
        return "needs psycopg: pip install 'tilewright[postgres]'"
    return "" if programs() is not None else "needs PostgreSQL's programs: initdb, postgres"


@dataclass
class PostgresServer:
    """A server whose data are in a folder."""

    folder: Path
    user: dict[str, Any]  # who runs it: it refuses to be root
    process: subprocess.Popen[bytes] | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def url(self, database: str = "postgres", user: str = _OWNER) -> str:
        """The URL of a database."""
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def start(self) -> None:
        """Start it, or start it again.

        One that was killed may have left processes that have its memory for a moment longer; a new
        one refuses to start meanwhile.
        """
        give_up = time.monotonic() + _START_SECONDS
        while True:
            if self.process is None or self.process.poll() is not None:
                self.process = self._launched()
            try:
                return PostgresConnection(self.url()).close()
            except DatabaseError:
                if time.monotonic() > give_up:
                    raise
            time.sleep(0.05)

    def _launched(self) -> subprocess.Popen[bytes]:
        bin_folder = programs()
        assert bin_folder is not None
        settings = ("listen_addresses=", "fsync=off", f"unix_socket_directories={self.folder}")
        options = [part for setting in settings for part in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [bin_folder / "postgres", "-D", self.folder / "data", *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self.user,
            )

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it at once; SIGKILL: as a machine does that loses its power."""
        if self.process is not None:
            backends = _children(self.process.pid) if how is signal.SIGKILL else []
            self.process.send_signal(how)
            self.process.wait()
            self.process = None
            for backend in backends:  # they would answer for a while
                _kill(backend)

    def new_database(self, *, is_empty: bool = False) -> str:
        """The URL of a database with our tables, or with none."""
        name = f"tuning{next(self._numbers)}"
        store = PostgresConnection(self.url())
        store.rows(f"CREATE DATABASE {name}")
        store.close()
        if not is_empty:
            store = PostgresConnection(self.url(name))
            postgres_schema.initialize(store)
            store.close()
        return self.url(name)


def _children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children")  # not on every system
    return [int(each) for each in listed.read_text().split()] if listed.exists() else []


def _kill(process: int) -> None:
    """End a process, and wait until it has let go of everything."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(process, signal.SIGKILL)
        status = Path(f"/proc/{process}/stat")
        while status.read_text().rpartition(")")[2].split()[0] != "Z":  # nobody may ask for it
            time.sleep(0.01)


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server that is gone afterwards."""
    bin_folder = programs()
    assert bin_folder is not None, why_missing()
    folder = Path(tempfile.mkdtemp(prefix="twpg"))  # paths of sockets are short
    user = _unprivileged(folder)
    try:
        options = ["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
        subprocess.run(
            [str(bin_folder / "initdb"), "-D", str(folder / "data"), "-U", _OWNER, *options],
            check=True,
            capture_output=True,
            cwd=folder,
            **user,
        )
        server = PostgresServer(folder, user)
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged(folder: Path) -> dict[str, Any]:
    """Options of `subprocess` for a user who is not root, and who owns the folder."""
    if os.getuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
