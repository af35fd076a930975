"""The process that tasks run in: `python -m tilewright.measure.worker PARENT`, started by a pool.

It is a fresh interpreter, not a fork. It reads one task after the other, answers each, and ends
when its parent is gone, whatever it is doing at that moment.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import queue
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from tilewright.measure.hooks import resolve_hook
from tilewright.measure.wire import (
    OUT_OF_MEMORY,
    RUN_ERROR,
    Call,
    Reply,
    Start,
    frame,
    read_frame,
    write_all,
)

_PR_SET_PDEATHSIG = 1
# The pool kills at the limit itself; the system's own limit stands behind it for jumps.
_HEADROOM = 1.25
# Workers are what the system should sacrifice when memory runs out, not the tuner.
_OOM_SCORE = "800"


def main(parent: int) -> None:
    """Serve until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(parent)
    requests, replies = _take_pipes()
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_watch, args=(requests, inbox), daemon=True).start()
    start = msgspec.msgpack.decode(inbox.get(), type=Start)
    write_all(replies, frame(_guarded(lambda: _prepare(start))))
    decoder = msgspec.msgpack.Decoder(Call)
    while True:
        call = decoder.decode(inbox.get())
        write_all(replies, frame(_guarded(lambda call=call: _perform(call))))  # type: ignore[misc]


def _die_with(parent: int) -> None:
    """Let the system kill us when our parent ends; elsewhere the closed pipe does it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)


def _take_pipes() -> tuple[int, int]:
    """Keep the pipes for ourselves: what tasks print must not get between the messages."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


def _watch(requests: int, inbox: queue.SimpleQueue[bytes]) -> None:
    """Read requests; the end of the pipe is the end of the process, even inside of a task."""
    while (body := read_frame(requests)) is not None:
        inbox.put(body)
    os._exit(0)


def _prepare(start: Start) -> bytes:
    sys.path[:] = start.sys_path
    gc.disable()
    for name in start.preload:
        resolve_hook(name)()
    gc.freeze()  # what was imported stays: the collector need not look at it after every few tasks
    gc.enable()
    if start.initializer is not None:
        resolve_hook(start.initializer)()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if start.memory_limit:
        most = int(start.memory_limit * _HEADROOM)
        with contextlib.suppress(OSError, ValueError):  # where it cannot be set, the pool watches
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    return b""


def _perform(call: Call) -> bytes:
    result = resolve_hook(call.function)(call.payload)
    assert isinstance(result, bytes)
    return result


def _guarded(work: Callable[[], bytes]) -> Reply:
    """Whatever a task raises becomes an answer."""
    try:
        return Reply(payload=work())
    except MemoryError as error:
        return Reply(failure=OUT_OF_MEMORY, message=f"MemoryError: {error}")
    except BaseException:  # SystemExit of a hook, too, must not end the worker
        return Reply(failure=RUN_ERROR, message=traceback.format_exc())


if __name__ == "__main__":
    main(int(sys.argv[1]))
