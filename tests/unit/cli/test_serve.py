"""`tilewright serve`: what it refuses, each in one line."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tilewright.database.postgres_connection import PostgresConnection
from tilewright.database.sql_tables import SCHEMA_VERSION
from tilewright.testing.postgres_server import PostgresServer
from tilewright.version import __version__

NEEDED = pytest.importorskip("uvicorn", reason="the live page needs tilewright[serve]")


def test_others_need_a_token(command: Any, records: Path) -> None:
    assert command("serve", "--host", "0.0.0.0", status=2).err == (
        "error: --host 0.0.0.0 lets other machines in; give --token SECRET, which visitors have to "
        "know\n"
    )


def test_no_database(command: Any) -> None:
    assert "there is no database .tilewright/records.db here" in command("serve", status=2).err


def test_a_port_that_is_taken(command: Any, records: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert command("serve", "--port", port, status=2).err == (
            f"error: cannot listen on 127.0.0.1 port {port}: Address already in use; "
            "--port 0 takes a free port\n"
        )


def test_a_host_that_is_not_there(command: Any, records: Path) -> None:
    token = "a-long-enough-secret"
    said = command("serve", "--host", "host.invalid", "--token", token, status=2).err
    assert said.startswith("error: cannot listen on host.invalid port 8765: ")
    assert said.count("\n") == 1


def test_a_token_in_a_file(command: Any, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NEEDED.Server, "run", lambda server, sockets: None)
    Path("token").write_text("a-long-enough-secret\n", encoding="utf-8")
    asked = command("serve", "--port", "0", "--token", "@token").out
    assert "asks for the token" in asked
    Path("token").write_text("short\n", encoding="utf-8")
    assert command("serve", "--token", "@token", status=2).err == (
        "error: --token has 5 characters; give it at least 16\n"
    )
    assert command("serve", "--token", "@nothing", status=2).err == (
        "error: --token @nothing: the file cannot be read: No such file or directory\n"
    )


def test_no_server(command: Any) -> None:
    pytest.importorskip("psycopg", reason="needs psycopg")
    said = command("serve", "--db", "postgresql://me:secret@127.0.0.1:1/x", status=2).err
    assert said.startswith("error: cannot open the database postgresql://me@127.0.0.1:1/x: ")
    assert said.count("\n") == 1


def test_a_server_of_a_newer_version(command: Any, postgres: PostgresServer) -> None:
    url = postgres.new_database()
    store = PostgresConnection(url)
    store.rows("UPDATE meta SET value = '99' WHERE key = 'schema'")
    store.close()
    for words in ("serve --db", "db ls --db", "db upgrade", "db init", "tune GMM:0 --db"):
        said = command(*words.split(), url, status=2).err
        assert said == (
            f"error: {url} was written by a newer Tilewright: its schema is 99, this version "
            f"({__version__}) reads up to {SCHEMA_VERSION}; upgrade Tilewright, or export the "
            "database to JSON with the newer version\n"
        )


def test_missing_packages(command: Any, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert command("serve", status=2).err == (
        "error: `tilewright serve` needs the package uvicorn; install tilewright[serve]\n"
    )


def test_it_says_where_it_is(command: Any, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NEEDED.Server, "run", lambda server, sockets: None)
    line = command("serve", "--port", "0").out
    assert line.startswith(".tilewright/records.db at http://127.0.0.1:")
    assert line.endswith("/; Ctrl-C ends it\n")
    token = "a-long-enough-secret"
    line = command("serve", "--host", "::1", "--port", "0", "--token", token).out
    assert line.startswith(".tilewright/records.db at http://[::1]:")
    assert line.endswith("/, which asks for the token; Ctrl-C ends it\n")
    assert token not in line


@pytest.mark.slow
def test_from_start_to_ctrl_c(records: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "tilewright.cli", "serve", "--port", "0"]
    with subprocess.Popen(
        [*command, "--db", str(records)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        address = re.findall(r"http://\S+/", server.stdout.readline())[0]
        with urllib.request.urlopen(address) as page:
            assert b"mm" in page.read()
        server.send_signal(signal.SIGINT)
        assert server.communicate()[1] == ""
    assert server.returncode == 0
