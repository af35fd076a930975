"""Hooks of builders and tasks of pools that misbehave; light to import: workers often die here."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import resource
import signal
import sys
import tempfile
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


# --- initializers of workers on a machine that lacks something ---


def limit_files() -> None:
    """As many open files as there are now."""
    free = os.dup(2)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))


def limit_file_size() -> None:
    """No file over a hundred bytes; Python has the system refuse, not end, who tries."""
    sys.dont_write_bytecode = True  # half of it would be left for everybody
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def limit_memory() -> None:
    """A few megabytes more than are in use now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (4 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def build_while_there_is_room(mod: Any, target: Any, params: Any) -> Any:
    """Build, but find the disk full once the file that the attribute "room" names is empty."""
    room = Path(mod["main"].attrs["room"])
    left = room.read_bytes()
    if not left:
        task_write_to_a_full_disk(b"")
    room.write_bytes(left[1:])
    return driver_build(mod, target)


def driver_build(mod: Any, target: Any) -> Any:
    from tilewright.driver import compile_only  # takes long; most of these hooks need nothing of it

    return compile_only(mod, target)


def export_to_a_full_disk(compiled: Any) -> str:
    Path("/dev/full").write_bytes(b"an artefact")
    return "/dev/full"


def task_open_a_file(payload: bytes) -> bytes:
    return Path(__file__).read_bytes()


def task_write_a_file(payload: bytes) -> bytes:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(1000))
    return b"written"


def task_write_to_a_full_disk(payload: bytes) -> bytes:
    Path("/dev/full").write_bytes(b"no room")
    return b"written"


def task_take_memory(payload: bytes) -> bytes:
    return bytes(64 << 20)


def task_start_a_thread_too_many(payload: bytes) -> bytes:
    """As Python says that the system refuses one."""
    raise RuntimeError("can't start new thread")


def task_full_once(payload: bytes) -> bytes:
    """Find the disk full, but only if the file that the payload names is not there yet."""
    marker = Path(payload.decode())
    if not marker.exists():
        marker.touch()
        task_write_to_a_full_disk(b"")
    return b"room again"


def task_ask_for_a_terabyte(payload: bytes) -> bytes:
    return bytes(1 << 40)


# --- tasks that leave something behind ---


def task_fork(payload: bytes) -> bytes:
    """Fork; the child comes back a second later, as a kernel that forks does."""
    if os.fork() == 0:
        time.sleep(1)
        return b"from the child"
    return payload


def task_answer(payload: bytes) -> bytes:
    """Write the payload to the pool, past the worker, and go on as if nothing was."""
    os.write(_reply_end(), payload)
    return b"answered"


def task_answer_later(payload: bytes) -> bytes:
    """Leave a process that writes noise to the pool half a second later."""
    if os.fork() == 0:
        time.sleep(0.5)
        task_answer(payload)
        os._exit(0)
    return b"answered"


def answer_noise() -> None:
    """An initializer that writes to the pool."""
    task_answer(b"\x03" + b"\0" * 7 + b"abc")


def _reply_end() -> int:
    """The pipe that this process can only write to."""
    for name in os.listdir("/proc/self/fd"):
        link = Path(f"/proc/self/fd/{name}")
        is_pipe = link.is_fifo()
        if is_pipe and fcntl.fcntl(int(name), fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
            return int(name)
    raise LookupError("there is no pipe to the pool")


def task_leave_children(payload: bytes) -> bytes:
    """Start processes that outlive their parent in all ways; their numbers, one a line.

    One stays in the group of the worker, one has a session of its own, and one is the orphan of a
    process with a session of its own. After that, end as the payload says: with the signal that it
    names, with "exit", or not at all.
    """
    reader, writer = os.pipe()
    for leave in (_stay, os.setsid, _become_orphan):
        if os.fork() == 0:
            leave()
            os.write(writer, b"%d\n" % os.getpid())
            time.sleep(3600)
    found = b""
    while found.count(b"\n") < 3:
        found += os.read(reader, 100)
    kept, _, end = payload.decode().partition(" ")
    Path(kept).write_bytes(found)
    if end == "exit":
        os._exit(3)
    if end:
        task_die(end.encode())
    return found


def _stay() -> None:
    """Leave nothing."""


def _become_orphan() -> None:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.setsid()


def task_take_all_memory(payload: bytes) -> bytes:
    """As a kernel in C does: fill block after block, and write to what was refused, too."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    while True:
        ctypes.memset(library.malloc(ctypes.c_size_t(1 << 20)), 1, 1 << 20)


def reserve_memory() -> None:
    """An initializer: half a gigabyte that is never touched, as the stacks of many threads are."""
    _reserved.append(mmap.mmap(-1, 512 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


_reserved: list[mmap.mmap] = []


# --- hooks of runners ---


def evaluator_of_ones(compiled: Any, device: Any, config: Any, repeated_args: Any) -> list[float]:
    """One second for every set of arguments."""
    return [1.0 for _ in repeated_args]


def evaluator_that_hangs(compiled: Any, device: Any, config: Any, repeated_args: Any) -> Any:
    time.sleep(3600)
