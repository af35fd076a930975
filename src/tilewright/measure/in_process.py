"""Doing a task in the calling process, for hooks that no other process can import.

A thread does it, so that a task that takes too long can be given up; it cannot be killed, and goes
on in the background. A crash of the task is a crash of the caller.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from tilewright.measure.pool import Outcome
from tilewright.records import FailureKind


def run_in_process(work: Callable[[], bytes], timeout_sec: float) -> Outcome:
    """The outcome of a task, or that it has not ended in time."""
    outcomes: list[Outcome] = []

    def attempt() -> None:
        try:
            outcomes.append(Outcome(payload=work()))
        except MemoryError as error:
            outcomes.append(Outcome(b"", FailureKind.OUT_OF_MEMORY, f"MemoryError: {error}"))
        except BaseException:
            outcomes.append(Outcome(b"", FailureKind.RUN_ERROR, traceback.format_exc()))

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(timeout_sec)
    return outcomes[0] if outcomes else Outcome(failure=FailureKind.TIMEOUT)
