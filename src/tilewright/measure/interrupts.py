"""Ctrl-C at the wrong moment: between two steps that belong together, it has to wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def delayed_interrupts() -> Iterator[None]:
    """Let Ctrl-C take effect at the end of the block; only for blocks that take milliseconds.

    Python delivers signals to the main thread, so there is nothing to do in others.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if arrived:
            usual(*arrived[0])


@contextmanager
def lasting_interrupts() -> Iterator[Callable[[], None]]:
    """Make a Ctrl-C last: the block gets a check that raises it again if it was swallowed.

    Python reports an exception in a finaliser or a garbage-collector callback and goes on, and a
    signal arrives wherever the interpreter happens to be: without this, a Ctrl-C can get lost.
    """
    usual = signal.getsignal(signal.SIGINT)
    arrived: list[int] = []

    def check() -> None:
        if arrived:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield check
        return

    def note(number: int, frame: FrameType | None) -> None:
        arrived.append(number)
        usual(number, frame)
        arrived.clear()  # a handler of the user's own took care of it

    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, usual)
