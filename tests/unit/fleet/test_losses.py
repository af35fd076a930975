"""Actors, nodes and whole clusters that are lost while candidates are measured."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.fleet.conftest import RayCluster, is_listening

import tilewright
from tilewright.database import open_database
from tilewright.database.sqlite import DEFAULT_NAME
from tilewright.errors import MachineError
from tilewright.fleet.ray_runner import RayRunner
from tilewright.fleet.rpc_config import client_port
from tilewright.measure import EvaluatorConfig
from tilewright.records import RunnerInput
from tilewright.testing import fleet_hooks
from tilewright.tune.api import tune_tir
from tilewright.tune.events import PhaseChanged
from tilewright.version import __version__
from tilewright.workloads.configs import create_te_workload

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    # Ray leaves files open.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MakeInput = Callable[..., RunnerInput]


@pytest.fixture
def warnings_shown(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "tilewright.measure"):
        yield caplog


def sleeping_runner(cluster: RayCluster, board: str, milliseconds: float = 50) -> RayRunner:
    return RayRunner(
        cluster.address,
        board=board,
        evaluator_config=EvaluatorConfig(min_repeat_ms=milliseconds),
        f_run_evaluator=fleet_hooks.evaluate_asleep,
    )


def test_random_kills_lose_no_trial(
    ray_cluster: RayCluster, tmp_path: Path, warnings_shown: pytest.LogCaptureFixture
) -> None:
    node = ray_cluster.add_node(resources={"flaky": 1})
    ray_cluster.add_node(resources={"flaky": 1})
    runner = sleeping_runner(ray_cluster, "flaky", 300)

    killed = 0

    def kill(event: object) -> None:
        """Whenever candidates are about to run: two actors, then a node."""
        nonlocal killed
        if isinstance(event, PhaseChanged) and event.phase == "run" and killed < 3:
            killed += 1
            if killed < 3:
                later = threading.Timer(0.4, fleet_hooks.kill_an_actor, [random.Random(killed)])
            else:
                later = threading.Timer(0.4, ray_cluster.nodes.remove_node, [node, False])
            later.start()

    tune_tir(
        create_te_workload("GMM", 0), "llvm", tmp_path, 24, num_trials_per_iter=8, runner=runner,
        seed=1, console=False, cost_model="random", observers=[kill],
    )  # fmt: skip
    runner.close()
    with closing(open_database(str(tmp_path / DEFAULT_NAME))) as database:
        records = database.get_all_tuning_records()
    assert [record.as_made().run_secs for record in records] == [(0.3,)] * 24
    assert "another one takes its place" in warnings_shown.text


def test_all_nodes_are_lost(ray_cluster: RayCluster, built: MakeInput) -> None:
    node = ray_cluster.add_node(resources={"only": 1})
    runner = sleeping_runner(ray_cluster, "only")
    runner.run([built()])[0].result()
    futures = runner.run([built() for _ in range(200)])
    ray_cluster.nodes.remove_node(node, allow_graceful=False)
    with pytest.raises(
        MachineError, match=r"^no node that runs llvm;.* is left: node .* was lost$"
    ):
        futures[-1].result()
    runner.close()


def test_a_node_that_is_off_its_peers_is_set_aside(
    ray_cluster: RayCluster, built: MakeInput, warnings_shown: pytest.LogCaptureFixture
) -> None:
    ray_cluster.add_node(resources={"peer": 2})
    ray_cluster.add_node(resources={"peer": 1}, env_vars={"FLEET_CALIBRATION": "1.3"})
    runner = RayRunner(
        ray_cluster.address, board="peer", calibration=fleet_hooks.calibrate_as_told, seed=1
    )
    # Devices are calibrated from three on, and nodes start one after the other.
    while "is set aside" not in warnings_shown.text:
        results = [future.result() for future in runner.run([built() for _ in range(3)])]
        assert all(result.run_secs for result in results), results
    runner.close()
    text = (
        r"node \S+ is set aside: it runs the calibration kernel in 1.3e\+03 ms, its 2 peers in 1e"
    )
    assert re.search(text, warnings_shown.text)


def test_the_command_tunes_on_a_cluster_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    command = [sys.executable, "-m", "tilewright.cli", "tune", "GMM:0", "--trials", "3"]
    done = subprocess.run(
        [*command, "--on", "ray"], env={**os.environ, **token}, cwd=tmp_path, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "% of roofline, record" in done.stdout


def other_version(folder: Path) -> Path:
    """A folder with this package as another version of it."""
    package = folder / "tilewright"
    package.mkdir()
    for path in Path(tilewright.__file__).parent.iterdir():
        if path.name not in ("version.py", "__pycache__"):
            (package / path.name).symlink_to(path)
    (package / "version.py").write_text('__version__ = "0.0.7"\n')
    return folder


def test_a_node_has_another_version(
    ray_cluster: RayCluster,
    built: MakeInput,
    tmp_path: Path,
    warnings_shown: pytest.LogCaptureFixture,
) -> None:
    path = f"{other_version(tmp_path)}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    node = ray_cluster.add_node(resources={"old": 1}, env_vars={"PYTHONPATH": path})
    runner = RayRunner(ray_cluster.address, board="old")
    text = (
        rf"node \S+ is not used: it has tilewright 0\.0\.7, this machine has {__version__}; "
        "install the same version on both"
    )
    with pytest.raises(MachineError, match=rf"^no node runs llvm;.*: {text}$"):
        runner.run([built()])[0].result()
    assert re.search(text, warnings_shown.text)
    runner.close()
    ray_cluster.nodes.remove_node(node)


LOST = """
import sys
from tilewright import te
from tilewright.ir import as_module
from tilewright.fleet.members import RPCConfig, RPCRunner
from tilewright.fleet.ray_builder import RayBuilder
from tilewright.records import BuilderInput, RunnerInput, args_info_of
from tilewright.target import Target

a = te.placeholder((4,), name="a")
mod = as_module(te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0, name="b")]))
config = RPCConfig("127.0.0.1", int(sys.argv[1]), "key", session_timeout_sec=60)
runner = RPCRunner(config)
builder = RayBuilder(config.address, max_workers=1)
(built,) = builder.build([BuilderInput(mod, Target("llvm"))])
given = RunnerInput(built.artifact_path, "llvm", args_info_of(mod), artifact=built.artifact)
print(bool(runner.run([given])[0].result().run_secs), flush=True)
input()
try:
    for future in runner.run([given] * 1000):
        future.result()
except ValueError as error:
    print(type(error).__name__, error, flush=True)
"""


def test_a_tracker_and_a_server_that_are_lost() -> None:
    """The commands start a cluster; when it goes away, a tuner says so in one line."""
    pytest.importorskip("ray", reason="Ray is not installed")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environ = {**os.environ, **token, "RAY_CLIENT_RECONNECT_GRACE_PERIOD": "2"}
    command = [sys.executable, "-m", "tilewright.cli"]

    def start(*arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            arguments, env=environ, stdin=pipe, stdout=pipe, text=True, start_new_session=True
        )

    tracker = start(*command, "rpc-tracker", "--host", "127.0.0.1", "--port", "29190")
    assert tracker.stdout is not None
    port = int(re.findall(r"^tracker at 127.0.0.1:(\d+);", tracker.stdout.readline())[0])
    server = tuner = None
    try:
        server = _started_server(start, command, port)
        while not is_listening(client_port(port)):
            time.sleep(0.2)
        tuner = start(sys.executable, "-c", LOST, str(port))
        assert tuner.stdout is not None
        assert tuner.stdout.readline() == "True\n"
        os.killpg(tracker.pid, signal.SIGKILL)
        output, _ = tuner.communicate("\n", timeout=120)
        assert re.fullmatch("MachineError lost the connection to the Ray cluster: .*\n", output)
    finally:
        for process in filter(None, (tuner, server, tracker)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()


def _started_server(
    start: Callable[..., subprocess.Popen[str]], command: list[str], port: int
) -> subprocess.Popen[str]:
    """A server for the tracker, which may not be there yet."""
    for _ in range(60):
        server = start(*command, "rpc-server", "--tracker", f"127.0.0.1:{port}", "--key", "key")
        assert server.stdout is not None
        if server.stdout.readline().startswith("server with the key key"):
            return server
        server.communicate()
        time.sleep(1)
    raise AssertionError("the tracker did not start")
