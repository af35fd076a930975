"""Ctrl-C while a command still starts: it waits until there is something to end.

Importing the compiler and reading programs takes about a second. A search that is interrupted
meanwhile would leave nothing; one that is interrupted as it begins leaves the schedule that needs
no search. Whoever presses Ctrl-C twice does not wait.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class EarlyInterrupt:
    """A Ctrl-C that may have come, and whether it is still to wait."""

    def __init__(self) -> None:
        self._has_come = False
        self._waits = True

    def note(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signal."""
        if self._waits and not self._has_come:
            self._has_come = True
        else:
            signal.default_int_handler(number, frame)

    def deliver(self) -> None:
        """From now on a Ctrl-C counts at once; so does one that has come."""
        self._waits = False
        if self._has_come:
            self._has_come = False
            signal.raise_signal(signal.SIGINT)


@contextmanager
def early_interrupt() -> Iterator[EarlyInterrupt]:
    """Let a Ctrl-C wait until `deliver` is called, at the latest until the end of the block."""
    pending, usual = EarlyInterrupt(), signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or usual is not signal.default_int_handler:
        yield pending
        return
    signal.signal(signal.SIGINT, pending.note)
    try:
        yield pending
        pending.deliver()
    finally:
        signal.signal(signal.SIGINT, usual)
