"""Room for deeply nested programs, and a clear error for those that are nested too deeply."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.errors import TilewrightError

# Sums of a thousand terms need several thousand frames; a stack of 8 MiB holds twice as many.
MAX_DEPTH = 10_000


class _Room:
    """The recursion limit is one for all threads: the first raises it, the last puts it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limit_before = 0

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                self._limit_before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._limit_before, MAX_DEPTH))
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                sys.setrecursionlimit(self._limit_before)


_room = _Room()


@contextmanager
def nested_deeply(error: type[TilewrightError], place: str) -> Iterator[None]:
    """Let recursion go deep inside; where that is not enough, raise `error` about `place`."""
    _room.enter()
    try:
        yield
    except RecursionError:
        raise error(
            f"{place} is nested too deeply: store parts of it in buffers, or bind them to variables"
        ) from None
    finally:
        _room.leave()
