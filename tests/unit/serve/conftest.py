"""A database in a file, and a server that shows it to visitors."""

from __future__ import annotations

import http.client
import json as json_text
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tilewright.database import SQLiteDatabase, open_database
from tilewright.serve.live_runs import event_reader
from tilewright.serve.replay import ReplayService
from tilewright.serve.snapshot import Watched
from tilewright.testing.tuned_databases import fill

SECRET = "a-long-enough-secret"


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of `mm`, one of `big` with a funnel, and a record of no run."""
    path = tmp_path_factory.mktemp("serve") / "records.db"
    database = SQLiteDatabase(path)
    fill(database)
    database.close()
    return path


@pytest.fixture
def records(filled: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copy(filled, tmp_path / "records.db"))


@pytest.fixture
def watched(records: Path) -> Iterator[Watched]:
    """The database as the page watches it."""
    database = open_database(records, read_only=True)
    yield Watched(database, "records.db", records, event_reader(database, records))
    database.close()


class _OneWorker(ReplayService):
    """The worker of all tests: servers do not end it."""

    def close(self) -> None:
        """It stays open."""


@pytest.fixture(scope="session")
def replays() -> Iterator[ReplayService]:
    """One worker for all tests."""
    service = _OneWorker()
    yield service
    ReplayService.close(service)


# --- servers and visitors -----------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What a server answers."""

    status: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any:
        return json_text.loads(self.text)


@dataclass
class Visitor:
    """Asks a server, and keeps its cookie."""

    address: str
    host: str = ""  # which name of the server it uses
    cookie: str = field(default="", init=False)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, json: object, headers: Mapping[str, str] | None = None) -> Answer:
        given = {"content-type": "application/json", **(headers or {})}
        return self.ask("POST", path, json_text.dumps(json).encode(), given)

    def login(self, token: str) -> Answer:
        given = {"content-type": "application/x-www-form-urlencoded"}
        return self.ask("POST", "/login", urlencode({"token": token}).encode(), given)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        where = urlsplit(self.address)
        connection = http.client.HTTPConnection(where.netloc, timeout=60)
        own = {"cookie": self.cookie, **({"host": self.host} if self.host else {})}
        try:
            connection.request(method, path, body, {**own, **(headers or {})})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        found = {name.lower(): value for name, value in answer.getheaders()}
        self.cookie = found.get("set-cookie", self.cookie).partition(";")[0]
        return Answer(answer.status, found, text)


@contextmanager
def _serving(app: Any) -> Iterator[str]:
    uvicorn = pytest.importorskip("uvicorn")
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


Server = Callable[..., AbstractContextManager[str]]


@pytest.fixture
def serving() -> Server:
    """A server for any application: a context manager that gives its address."""
    return _serving


@pytest.fixture
def server(watched: Watched, replays: ReplayService) -> Server:
    """Starts servers: a context manager that gives an address."""
    pytest.importorskip("starlette", reason="the live page needs tilewright[serve]")
    from tilewright.serve.access import PageAccess
    from tilewright.serve.app import make_app

    return lambda *access: _serving(make_app(watched, PageAccess(*access), replays))


@pytest.fixture
def visitor(server: Server) -> Iterator[Visitor]:
    """A visitor on this machine."""
    with server() as address:
        yield Visitor(address)


@pytest.fixture
def stranger(server: Server) -> Iterator[Visitor]:
    """A visitor from elsewhere who has not shown the token yet."""
    with server("0.0.0.0", SECRET, frozenset({"lab"})) as address:
        yield Visitor(address, host="lab:8765")


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool]], None]:
    """Waits until something is true."""

    def wait(is_true: Callable[[], bool]) -> None:
        end = time.monotonic() + 30
        while not is_true():
            assert time.monotonic() < end, "it never came"
            time.sleep(0.05)

    return wait
