"""Clusters that are not there, and trackers that are not given: one line each."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from tests.unit.fleet.conftest import unused_port

from tilewright.cli import rpc
from tilewright.errors import TuneError
from tilewright.fleet import joining
from tilewright.fleet.joining import join
from tilewright.fleet.rpc_config import RPCConfig

NO_RAY = """
import sys
sys.modules["ray"] = None
from tilewright.fleet.ray_runner import RayRunner
try:
    RayRunner()
except ValueError as error:
    print(error)
"""


def test_no_ray() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_RAY], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "measuring on other machines needs Ray, which is not installed here: pip install "
        '"tilewright[ray]"\n'
    )


def test_no_server_at_the_address() -> None:
    port = unused_port()
    with pytest.raises(TuneError) as caught:
        join(f"ray://127.0.0.1:{port}")
    assert str(caught.value) == (
        f"no Ray cluster answers at ray://127.0.0.1:{port}: Connection refused; start one with "
        "`ray start --head` or `tilewright rpc-tracker`, and name its client port"
    )


@pytest.mark.parametrize("address", ["rays", "ray://", "ray://host", "ray://host:x", "host:1"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(TuneError) as caught:
        join(address)
    assert str(caught.value) == f"{address!r}: expected 'ray', or 'ray://HOST:PORT' of a cluster"


def test_a_tracker_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"HOST": "h", "PORT": "9190", "KEY": "k"}.items():
        monkeypatch.setenv(f"TVM_TRACKER_{name}", value)
    assert RPCConfig().resolved() == RPCConfig("h", 9190, "k")
    assert RPCConfig(tracker_key="other").resolved().tracker_key == "other"


@pytest.mark.parametrize("missing", ["host", "port", "key"])
def test_a_tracker_that_is_not_given(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for name in ("HOST", "PORT", "KEY"):
        monkeypatch.delenv(f"TVM_TRACKER_{name}", raising=False)
    given = {"tracker_host": "h", "tracker_port": 9190, "tracker_key": "k"}
    del given[f"tracker_{missing}"]
    with pytest.raises(ValueError) as caught:
        RPCConfig(**given).resolved()  # type: ignore[arg-type]
    variable = f"TVM_TRACKER_{missing.upper()}"
    text = f"RPCConfig: tracker_{missing} is not given, and {variable} is not set"
    assert str(caught.value) == text


def test_a_port_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_TRACKER_PORT", "many")
    with pytest.raises(TuneError) as caught:
        RPCConfig("h", tracker_key="k").resolved()
    assert str(caught.value) == "RPCConfig: tracker_port is a port up to 65534, got 'many'"


def test_a_tracker_takes_the_first_ports_that_are_free() -> None:
    port = unused_port()
    command = rpc.tracker_command("127.0.0.1", range(port, port + 10))
    assert "--head" in command
    assert "--node-ip-address=127.0.0.1" in command
    chosen = int(next(part[7:] for part in command if part.startswith("--port=")))
    assert f"--ray-client-server-port={chosen + 1}" in command
    with pytest.raises(TuneError, match=r"^no port from 5 to 4 is free on 127.0.0.1$"):
        rpc.tracker_command("127.0.0.1", range(5, 5))


def test_a_tracker_among_the_ports_of_workers() -> None:
    any_port = "--min-worker-port=0"
    for first, is_among in ((9990, False), (10001, True), (19998, True), (20000, False)):
        ports = range(first, first + 2)  # one of them may be taken
        assert (any_port in rpc.tracker_command("127.0.0.1", ports)) == is_among


def test_a_server_needs_a_tracker_and_a_key() -> None:
    ports = range(9090, 9100)
    with pytest.raises(TuneError, match=r"^--tracker host: expected HOST:PORT$"):
        rpc.server_command("host", "key", "0.0.0.0", ports)
    with pytest.raises(TuneError, match=r"^--key: expected the name under which runners ask"):
        rpc.server_command("host:1", "", "0.0.0.0", ports)
    port = unused_port()
    text = f"^--tracker 127.0.0.1:{port}: no tracker answers there: Connection refused$"
    with pytest.raises(TuneError, match=text):
        rpc.server_command(f"127.0.0.1:{port}", "key", "0.0.0.0", ports)


def test_a_server_has_its_key_as_a_resource() -> None:
    with socket.socket() as tracker:
        tracker.bind(("127.0.0.1", 0))
        tracker.listen()
        port = tracker.getsockname()[1]
        command = rpc.server_command(f"127.0.0.1:{port}", "rasp4", "0.0.0.0", range(9090, 9100))
    assert f"--address=127.0.0.1:{port}" in command
    assert '--resources={"rpc:rasp4": 1}' in command


@pytest.mark.parametrize(
    ("failures", "calls"),
    [
        (["Starting Ray client server failed"], 2),
        (["psutil.ZombieProcess: PID still exists but it's a zombie (pid=7)"], 2),
        (["Starting Ray client server failed"] * 2, 2),
        (["no"], 1),
    ],
)
def test_servers_that_die_as_they_start_are_started_again(
    failures: list[str], calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, asked = list(failures), []

    def init(address: str, **options: object) -> None:
        asked.append(address)
        if left:
            raise ConnectionError(left.pop(0))

    ray = SimpleNamespace(init=init, __version__="2.60.0")
    monkeypatch.setattr(joining, "require_ray", lambda: ray)
    monkeypatch.setattr(joining, "_require_server", print)
    with pytest.raises(TuneError) if len(failures) >= calls else nullcontext():
        join("ray://host:1")
    assert len(asked) == calls


def test_a_server_that_hangs_as_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGALRM)
    ray = SimpleNamespace(init=lambda *_, **__: threading.Event().wait(), __version__="2.60.0")
    monkeypatch.setattr(joining, "require_ray", lambda: ray)
    monkeypatch.setattr(joining, "_require_server", print)
    monkeypatch.setattr(joining, "JOIN_SECS", 0.1)
    with pytest.raises(TuneError) as caught:
        join("ray://host:1")
    assert str(caught.value) == (
        "cannot use the Ray cluster at ray://host:1: it did not let this process in within 0 s; "
        "try again"
    )
    assert signal.getsignal(signal.SIGALRM) is before
