"""Functions of runners on other machines, for tests and benchmarks; nodes import them by name."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.runtime.registry import register_func


def evaluate_asleep(module: Any, device: Any, config: Any, repeated_args: Any) -> list[float]:
    """A kernel that sleeps for as long as a row of runs takes."""
    time.sleep(config.min_repeat_ms / 1e3)
    return [config.min_repeat_ms / 1e3]


def evaluate_in_a_session(
    session: Any, module: Any, device: Any, config: Any, sets: Sequence[Any]
) -> list[float]:
    """One second for each argument of each set."""
    return [float(len(arguments)) for arguments in sets]


def evaluate_for_ever(
    session: Any, module: Any, device: Any, config: Any, sets: Any
) -> list[float]:
    """A run that does not end."""
    time.sleep(3600)
    return []


def calibrate_as_told() -> float:
    """The seconds that the environment of a node says; one without it."""
    return float(os.environ.get("FLEET_CALIBRATION", 1.0))  # noqa: TID251  (tests set it)


class VisibleGpus:
    """An actor that says which GPUs it may use."""

    def __init__(self, settings: bytes) -> None:
        """Like other actors; it needs no settings."""

    def perform(self, what: str, payload: bytes) -> bytes:
        """Their numbers."""
        return os.environ.get("CUDA_VISIBLE_DEVICES", "").encode()  # noqa: TID251  (Ray sets it)


def register_functions() -> None:
    """The initializer of a runner: its functions are known by name afterwards."""
    register_func("fleet_hooks.evaluate", evaluate_in_a_session, override=True)
    register_func("fleet_hooks.cleanup", cleanup_as_tvm, override=True)


def cleanup_as_tvm(session: Any, remote_path: str | None) -> None:
    """Remove what a runner of TVM's removes."""
    for path in (remote_path, f"{remote_path}.so", ""):
        session.remove(path)
    if Path(session.folder).exists():
        raise ValueError("something was left")


def fail_in_a_step(*given: Any) -> Any:
    """Any step of a session, failing."""
    raise ValueError("this step always fails")


def evaluate_and_die_once(module: Any, device: Any, config: Any, args: Any) -> list[float]:
    """Kill the actor that this worker belongs to, but only while the marker is there."""
    marker = marker_of_death()
    if marker.exists():
        marker.unlink()
        os.kill(int(sys.argv[1]), signal.SIGKILL)  # the process that owns the pool
        time.sleep(3600)
    return [1.0]


def marker_of_death() -> Path:
    """A file that says that the next actor has to die."""
    return Path(tempfile.gettempdir()) / f"tilewright-fleet-death-{os.getuid()}"


def kill_an_actor(chosen: random.Random) -> bool:
    """Kill one of the actors on nodes that this process started, if there is one."""
    found = [
        int(folder.name)
        for folder in Path("/proc").iterdir()
        if folder.name.isdecimal() and _is_our_actor(int(folder.name))
    ]
    if not found:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(chosen.choice(found), signal.SIGKILL)
    return True


def _is_our_actor(process: int) -> bool:
    """An actor is a child of its node's raylet, which is a child of who started the node."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        is_actor = b"ray::MeasureActor" in command or b"ray::BuildActor" in command
        return is_actor and _parent(_parent(process)) == os.getpid()
    except OSError:
        return False


def _parent(process: int) -> int:
    stat = Path(f"/proc/{process}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])
