"""The process that tasks run in: `python -m tilewright.measure.worker PARENT`, started by a pool.

It is a fresh interpreter, not a fork. It reads one task after the other, answers each, and ends
when its parent is gone, whatever it is doing at that moment.
"""

from __future__ import annotations

import contextlib
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

from tilewright.errors import KernelAssertError
from tilewright.measure import wire
from tilewright.measure.guardian import fork_worker
from tilewright.measure.hooks import resolve_hook
from tilewright.measure.memory import LEAST, can_get
from tilewright.support.machine_faults import is_lack_of_memory, machine_fault, no_memory

# The pool kills at the limit itself; the system's own limit stands behind it for jumps.
_HEADROOM = 1.25
# Workers are what the system should sacrifice when memory runs out, not the tuner.
_OOM_SCORE = "800"
_STACK = 8 << 20  # of a thread, where its size is not limited
_START = 0  # the number of the first request


def main(pool: int) -> None:
    """Serve until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, replies = _take_pipes()
    try:
        fork_worker(pool, requests, replies)
        inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=_watch, args=(requests, inbox), daemon=True).start()
    except (OSError, RuntimeError) as error:
        wire.write_all(replies, wire.frame(_failure(_START, error)))
        raise
    start = msgspec.msgpack.decode(inbox.get(), type=wire.Start)
    _answer(replies, _START, lambda: _prepare(start))
    decoder = msgspec.msgpack.Decoder(wire.TaskCall)
    while True:
        call = decoder.decode(inbox.get())
        _answer(replies, call.number, lambda call=call: _perform(call))  # type: ignore[misc]


def _answer(replies: int, number: int, work: Callable[[], bytes]) -> None:
    """Whatever a task raises becomes an answer; a fork that a task left behind has none to give."""
    worker = os.getpid()
    try:
        reply = wire.Reply(number, payload=work())
    except BaseException as error:  # SystemExit of a hook, too, must not end the worker
        reply = _failure(number, error)
    if os.getpid() != worker:
        os._exit(0)
    wire.write_all(replies, wire.frame(reply))


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
    while (body := wire.read_frame(requests)) is not None:
        inbox.put(body)
    os._exit(0)


def _prepare(start: wire.Start) -> bytes:
    """Become what the pool wants; the number of this process."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
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
        _limit_memory(int(start.memory_limit * _HEADROOM))
    return str(os.getpid()).encode()


def _limit_memory(most: int) -> None:
    """Let tasks take so much on top of what is reserved anyhow, which need not be in use.

    Stacks of threads count as soon as they are reserved, so what a task may take must not depend on
    the number of cores.
    """
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    stacks = (os.cpu_count() or 1) * (_STACK if stack == resource.RLIM_INFINITY else stack)
    with contextlib.suppress(OSError, ValueError):  # where it cannot be set, the pool watches
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (most + _reserved() + stacks, hard))


def _reserved() -> int:
    """The bytes of memory of its own that this process has reserved."""
    with contextlib.suppress(OSError):
        pages = Path("/proc/self/statm").read_bytes().split()[5]
        return int(pages) * resource.getpagesize()
    return 0


def _perform(call: wire.TaskCall) -> bytes:
    result = resolve_hook(call.function)(call.payload)
    assert isinstance(result, bytes)
    return result


def _failure(number: int, error: BaseException) -> wire.Reply:
    """Whose fault an exception is: the task's or the machine's."""
    fault = machine_fault(error)
    of_kernel = isinstance(error, KernelAssertError) and "out of memory" in str(error)
    if of_kernel or is_lack_of_memory(error):
        text = f"{type(error).__name__}: {error}"
        if _machine_has_memory():
            return wire.Reply(number, failure=wire.OUT_OF_MEMORY, message=text)
        fault = no_memory(text)
    if fault is not None:
        return wire.Reply(number, failure=wire.MACHINE, message=str(fault))
    text = "".join(traceback.format_exception(error))
    return wire.Reply(number, failure=wire.RUN_ERROR, message=text)


def _machine_has_memory() -> bool:
    """Whether it was the limit of this worker that a task ran into."""
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    return can_get(LEAST)


if __name__ == "__main__":
    main(int(sys.argv[1]))
