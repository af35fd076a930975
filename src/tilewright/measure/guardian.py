"""The process between a pool and its worker: whatever a task starts ends with the worker.

A task may start processes that leave the worker's group (`setsid`) or outlive their parent. On
Linux they all become children of the guardian once their own parent is gone, so it finds every one
of them. Other systems have no such thing: there it ends the processes of the worker's group only.

The guardian waits, and does nothing else until the worker or the pool ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

from tilewright.measure.wire import Farewell, frame

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_EVENTS = (signal.SIGCHLD, signal.SIGTERM)
# What the system counts the largest memory of a process in.
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


def fork_worker(pool: int, requests: int, replies: int) -> None:
    """Return in a new process, the worker; this one becomes its guardian and ends after it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _EVENTS)
    # Some systems drop a signal that is blocked if it would be ignored otherwise.
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _end_with(pool, signal.SIGTERM)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    guardian, worker = os.getpid(), os.fork()
    if worker == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _EVENTS)
        _end_with(guardian, signal.SIGKILL)
        return
    _guard(worker, requests, replies)


def _end_with(parent: int, signal_number: int) -> None:
    """Let the system signal us when our parent ends; elsewhere the closed pipe ends the worker."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        os._exit(0)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _guard(worker: int, requests: int, replies: int) -> None:
    os.close(requests)  # else the pool could not notice that the worker is gone
    status, usage = _wait_for(worker)
    _end_group(worker)
    _end_children()
    code = os.waitstatus_to_exitcode(status)
    os.set_blocking(replies, False)  # a pool that does not listen any more waits for our end
    with contextlib.suppress(OSError):
        os.write(replies, frame(Farewell(code, usage.ru_maxrss * _MAXRSS_UNIT)))
    os._exit(code if code >= 0 else 128 - code)


def _wait_for(worker: int) -> tuple[int, resource.struct_rusage]:
    """Wait for the worker, which the pool may ask us to end; others are orphans that ended."""
    while True:
        if signal.sigwait(_EVENTS) == signal.SIGTERM:
            _end_group(worker)
        while (found := os.wait4(-1, os.WNOHANG))[0]:
            if found[0] == worker:
                return found[1:]


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _end_children() -> None:
    """End what the worker left behind; its children become ours when it ends, and so on."""
    spared: set[int] = set()  # of another user: not ours to end
    while children := [pid for pid in _children() if pid not in spared]:
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except PermissionError:
                spared.add(pid)
            except (ProcessLookupError, ChildProcessError):
                continue  # it has ended


def _children() -> list[int]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, AttributeError):  # there are none, or the system does not tell
        return []
    with contextlib.suppress(OSError):
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if _parent_of(pid) == os.getpid()]
    return []


def _parent_of(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        # The name of the program is in brackets and may contain anything.
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    return None
