"""The command on a cluster that was started elsewhere: a head in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.fleet.conftest import STORE_BYTES, is_listening, unused_port

from tilewright.database import open_database

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.xdist_group("ray")]

HASWELL = "llvm -mcpu=haswell -num-cores=3"
TOKEN_HINT = "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN as it was when the cluster started"


@dataclass
class Head:
    """The head of a cluster, a process of Ray's."""

    process: subprocess.Popen[bytes]
    port: int
    client_port: int
    environ: dict[str, str]

    @property
    def address(self) -> str:
        return f"ray://127.0.0.1:{self.client_port}"

    def tune(self, folder: Path, *options: str, **environ: str) -> subprocess.Popen[str]:
        """The command, in another folder than that of the head."""
        command = [sys.executable, "-m", "tilewright.cli", "tune", "GMM:0", "--db", "out.db"]
        if "--on" not in options:
            options = ("--on", self.address, *options)
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*command, *options], env={**self.environ, **environ}, cwd=folder, text=True,
            stdout=pipe, stderr=pipe,
        )  # fmt: skip

    def error_of(self, folder: Path, *options: str, **environ: str) -> str:
        """What the command says before it ends with an error."""
        process = self.tune(folder, "--trials", "3", *options, **environ)
        _, errors = process.communicate()
        assert process.returncode == 2, errors
        return errors


@contextmanager
def started_head() -> Iterator[Head]:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environ = {**os.environ, **token, "RAY_CLIENT_RECONNECT_GRACE_PERIOD": "2"}
    ports = unused_port(), unused_port()
    command = [
        sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block",
        "--disable-usage-stats", "--include-dashboard=false", "--num-cpus=1", "--num-gpus=1",
        f"--port={ports[0]}", f"--ray-client-server-port={ports[1]}",
        f"--object-store-memory={STORE_BYTES}",
        '--system-config={"local_fs_capacity_threshold": 0.01}',  # nothing spills to the disk
    ]  # fmt: skip
    with tempfile.TemporaryFile() as log:
        no_gpu = {**environ, "CUDA_VISIBLE_DEVICES": "99"}  # Ray believes that there is one
        process = subprocess.Popen(
            command, env=no_gpu, stdout=log, stderr=log, start_new_session=True
        )
        try:
            while not is_listening(ports[1]):
                if process.poll() is not None:
                    log.seek(0)
                    raise AssertionError(log.read().decode())
                time.sleep(0.2)
            yield Head(process, *ports, environ)
        finally:
            process.terminate()
            process.wait()


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    with started_head() as head:
        yield head


def records_in(folder: Path) -> int:
    with closing(open_database(str(folder / "out.db"))) as database:
        return len(database.get_all_tuning_records())


def read_until(text: str, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert any(text in line for line in process.stdout)


def test_it_is_interrupted_and_goes_on(head: Head, tmp_path: Path) -> None:
    first = head.tune(tmp_path, "--trials", "500")
    read_until("best", first)
    first.send_signal(signal.SIGINT)
    output, errors = first.communicate()
    assert (first.returncode, errors) == (130, "")
    assert "all records are in out.db; the same command continues from here" in output
    kept = records_in(tmp_path)
    assert kept > 0
    again = head.tune(tmp_path, "--trials", str(kept + 4))  # devices are free again
    output, errors = again.communicate()
    assert (again.returncode, errors) == (0, "")
    assert "done in" in output
    assert records_in(tmp_path) >= kept + 4


def test_no_token(head: Head, tmp_path: Path) -> None:
    assert head.error_of(tmp_path, RAY_AUTH_MODE="disabled") == (
        f"error: cannot use what answers at {head.address}: it asks for a token; {TOKEN_HINT}\n"
    )


def test_a_wrong_token(head: Head, tmp_path: Path) -> None:
    assert head.error_of(tmp_path, RAY_AUTH_TOKEN=secrets.token_hex(32)) == (
        f"error: cannot use what answers at {head.address}: it refuses the token; {TOKEN_HINT}\n"
    )


def test_a_wrong_port_of_the_cluster(head: Head, tmp_path: Path) -> None:
    address = f"ray://127.0.0.1:{head.port}"
    assert head.error_of(tmp_path, "--on", address) == (
        f"error: cannot use what answers at {address}: it is not a client server of Ray's; name "
        "the client port of the cluster, which is 10001 unless `ray start "
        "--ray-client-server-port` says another\n"
    )


def test_something_else_at_the_address(head: Head, tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"ray://127.0.0.1:{silent.getsockname()[1]}"
        assert head.error_of(tmp_path, "--on", address) == (
            f"error: cannot use what answers at {address}: it does not speak as Ray does; name "
            "the client port of a Ray cluster\n"
        )


def test_no_node_has_the_target(head: Head, tmp_path: Path) -> None:
    errors = head.error_of(tmp_path, "--target", HASWELL)
    assert re.fullmatch(r"error: no node runs llvm;cpu=haswell;.*; there is llvm;.*\n", errors)


def test_a_node_that_declares_a_gpu_without_having_one(head: Head, tmp_path: Path) -> None:
    errors = head.error_of(tmp_path, "--target", "cuda -arch=sm_90")
    warning, error = errors.splitlines()
    assert re.search(r"node \S+ is not used: it cannot run cuda: ", warning)
    assert error.startswith("error: no node runs cuda;")
    assert error.endswith(warning[warning.index("node ") :])


FULL = """
import sys
from tilewright.codegen.artifact import Artifact
from tilewright.errors import MachineError
from tilewright.fleet.cluster import connect

cluster = connect(sys.argv[1])
try:
    cluster.store(Artifact("candidate", bytes(200 << 20)))
except MachineError as error:
    print(error)
print(len(cluster.nodes()), "node")
cluster.disconnect()
"""


def test_a_full_object_store(head: Head) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, head.address], env=head.environ, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout == (
        "the object store of the Ray cluster is full; start its nodes with a larger "
        "--object-store-memory, or free some disk space for it to spill to\n1 node\n"
    )


def test_the_cluster_is_gone_in_mid_run(tmp_path: Path) -> None:
    with started_head() as lost:
        process = lost.tune(tmp_path, "--trials", "500")
        read_until("best", process)
        os.killpg(lost.process.pid, signal.SIGKILL)
        output, errors = process.communicate()
    assert process.returncode == 2
    assert "all records are in out.db; the same command continues from here" in output
    error = errors.splitlines()[-1]
    gone = (
        "lost the connection to the Ray cluster: .*|no node that runs .* is left: node .* was lost"
    )
    assert re.fullmatch(f"error: ({gone})", error)
    assert errors.count("error: ") == 1
    assert records_in(tmp_path) > 0
