"""The threads that parallel loops run on: how many, and the pool they belong to.

The pool itself is native code (see `native/thread_pool_ir.py`), loaded once a process. Its threads
are detached and block all signals, so neither exit nor Ctrl-C has to wait for them.
"""

from __future__ import annotations

import ctypes
import operator
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from tilewright.codegen.host import native
from tilewright.config import settings
from tilewright.errors import ArgumentError
from tilewright.native.abi import SET_NUM_THREADS
from tilewright.native.thread_pool_ir import MAX_THREADS

_CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")


class _NativePool(NamedTuple):
    """The pool's C functions that Python calls."""

    set_num_threads: Callable[[int], object]
    num_threads: Callable[[], int]
    set_spin_ns: Callable[[int], object]
    limit_threads: Callable[[int], int]


@lru_cache(maxsize=1)
def _pool() -> _NativePool:
    addresses = native.symbols()
    pool = _NativePool(
        ctypes.CFUNCTYPE(None, ctypes.c_int32)(addresses[SET_NUM_THREADS]),
        ctypes.CFUNCTYPE(ctypes.c_int32)(addresses["tw_num_threads"]),
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(addresses["tw_set_spin_ns"]),
        ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(addresses["tw_limit_threads"]),
    )
    pool.set_num_threads(settings().num_threads or available_cores())
    pool.set_spin_ns(settings().spin_us * 1000)
    return pool


def symbols() -> dict[str, int]:
    """Addresses of all ``tw_*`` functions, with the pool set up as the settings ask."""
    _pool()
    return native.symbols()


class _HasThreads(Protocol):
    def set_num_threads(self, count: int, /) -> None: ...


# An exported library has a thread pool of its own, which does what ours is told.
_followers: weakref.WeakSet[_HasThreads] = weakref.WeakSet()


def follow(library: _HasThreads) -> None:
    """Tell a library about the number of threads, now and whenever it changes."""
    library.set_num_threads(num_threads())
    _followers.add(library)


def num_threads() -> int:
    """How many threads a parallel loop may use, the calling one included."""
    return _pool().num_threads()


def set_num_threads(count: int) -> None:
    """Let parallel loops use `count` threads, the calling one included."""
    number = _checked("set_num_threads", count)
    _pool().set_num_threads(number)
    for library in tuple(_followers):
        library.set_num_threads(number)


def _checked(what: str, count: int) -> int:
    try:
        number = operator.index(count)
    except TypeError as error:
        raise ArgumentError(f"{what}: expected a whole number of threads, got {count!r}") from error
    if not 1 <= number <= MAX_THREADS:
        raise ArgumentError(
            f"{what}: expected a number of threads from 1 to {MAX_THREADS}, got {number}"
        )
    return number


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Use `count` threads inside a `with` block; the number is one for the whole process."""
    before = num_threads()
    set_num_threads(count)
    try:
        yield
    finally:
        set_num_threads(before)


@contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """Let parallel loops that this thread starts inside the block use `count` threads.

    Other threads go on with theirs; None changes nothing.
    """
    if count is None:
        yield
        return
    before = _pool().limit_threads(_checked("threads", count))
    try:
        yield
    finally:
        _pool().limit_threads(before)


def set_spin_time(microseconds: float) -> None:
    """How long an idle worker looks for work before it sleeps; 0 saves most energy."""
    if microseconds < 0:
        raise ArgumentError(f"set_spin_time: expected 0 or more microseconds, got {microseconds}")
    _pool().set_spin_ns(int(microseconds * 1000))


def available_cores() -> int:
    """Cores that this process may really use: its affinity mask, cut by a container's quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return max(1, min(cores, _quota_cores(_CGROUP_QUOTA, cores)))


def _quota_cores(path: Path, unlimited: int) -> int:
    """Whole cores that a cgroup's "quota period" line grants, at least one."""
    try:
        quota, period = path.read_text().split()
    except (OSError, ValueError):
        return unlimited
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return unlimited
    return max(1, int(quota) // int(period))
