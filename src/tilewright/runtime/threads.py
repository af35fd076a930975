"""How many threads parallel loops use: everywhere, or for a while."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from tilewright.errors import ArgumentError
from tilewright.runtime import thread_pool

__all__ = ["follow", "num_threads", "set_num_threads", "use_threads"]


class _HasThreads(Protocol):
    def set_num_threads(self, count: int, /) -> None: ...


# An exported library has a thread pool of its own, which does what ours is told.
_followers: weakref.WeakSet[Any] = weakref.WeakSet()


def follow(library: _HasThreads) -> None:
    """Tell a library about the number of threads, now and whenever it changes."""
    library.set_num_threads(num_threads())
    _followers.add(library)


def num_threads() -> int:
    """How many threads a parallel loop may use, the calling one included."""
    return thread_pool.num_threads()


def set_num_threads(count: int) -> None:
    """Let parallel loops use `count` threads, the calling one included."""
    try:
        number = operator.index(count)
    except TypeError as error:
        raise ArgumentError(
            f"set_num_threads: expected a whole number of threads, got {count!r}"
        ) from error
    thread_pool.set_num_threads(number)
    for library in tuple(_followers):
        library.set_num_threads(number)


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Use `count` threads inside a `with` block; the number is one for the whole process."""
    before = num_threads()
    set_num_threads(count)
    try:
        yield
    finally:
        set_num_threads(before)
