"""Hooks of builders and tasks of pools that misbehave; light to import: workers often die here."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path
from typing import Any

# --- hooks of builders ---


def build_that_raises(mod: Any, target: Any, params: Any) -> Any:
    raise ValueError("this build always fails")


def build_that_hangs(mod: Any, target: Any, params: Any) -> Any:
    time.sleep(3600)


def build_that_crashes(mod: Any, target: Any, params: Any) -> Any:
    ctypes.string_at(0)


def build_that_takes_all_memory(mod: Any, target: Any, params: Any) -> Any:
    kept = []
    while True:
        kept.append(bytearray(os.urandom(1 << 20)))


def build_that_exits(mod: Any, target: Any, params: Any) -> Any:
    raise SystemExit(1)


def build_as_named(mod: Any, target: Any, params: Any) -> Any:
    """Misbehave in the way that the attribute "fault" of the module says."""
    return globals()[f"build_that_{mod.attrs['fault']}"](mod, target, params)


def export_that_raises(compiled: Any) -> str:
    raise ValueError("this export always fails")


# --- tasks of pools ---


def task_echo(payload: bytes) -> bytes:
    return payload


def task_pid(payload: bytes) -> bytes:
    return str(os.getpid()).encode()


def task_sleep(payload: bytes) -> bytes:
    """Sleep as many seconds as the payload says."""
    time.sleep(float(payload))
    return payload


def task_die(payload: bytes) -> bytes:
    """End the own process with the signal that the payload names."""
    os.kill(os.getpid(), signal.Signals[payload.decode()])
    time.sleep(3600)
    return b""


def task_die_once(payload: bytes) -> bytes:
    """Kill the own process, but only if the file that the payload names is not there yet."""
    marker = Path(payload.decode())
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return b"survived"


def task_print(payload: bytes) -> bytes:
    """Write to stdout and stderr, from Python and from C."""
    print("from Python", flush=True)
    os.write(1, b"to descriptor 1\n")
    os.write(2, payload)
    return b"printed"


def task_abort(payload: bytes) -> bytes:
    """Say why and abort, as C libraries do."""
    os.write(2, payload)
    os.abort()


# --- hooks of runners ---


def evaluator_of_ones(compiled: Any, device: Any, config: Any, repeated_args: Any) -> list[float]:
    """One second for every set of arguments."""
    return [1.0 for _ in repeated_args]


def evaluator_that_hangs(compiled: Any, device: Any, config: Any, repeated_args: Any) -> Any:
    time.sleep(3600)
