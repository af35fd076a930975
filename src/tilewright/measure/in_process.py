"""Doing a task in the calling process, for hooks that no other process can import.

A thread does it, so that a task that takes too long can be given up; it cannot be killed, and goes
on in the background. A crash of the task is a crash of the caller.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from tilewright.errors import MachineError
from tilewright.measure.memory import LEAST, can_get
from tilewright.measure.pool import Outcome
from tilewright.records import FailureKind
from tilewright.support.machine_faults import is_lack_of_memory, machine_fault


def run_in_process(work: Callable[[], bytes], timeout_sec: float) -> Outcome:
    """The outcome of a task, or that it has not ended in time."""
    outcomes: list[Outcome | MachineError] = []

    def attempt() -> None:
        try:
            outcomes.append(Outcome(payload=work()))
        except BaseException as error:
            outcomes.append(_failure(error))

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(timeout_sec)
    outcome = outcomes[0] if outcomes else Outcome(failure=FailureKind.TIMEOUT)
    if isinstance(outcome, MachineError):
        raise outcome
    return outcome


def _failure(error: BaseException) -> Outcome | MachineError:
    if is_lack_of_memory(error) and can_get(LEAST):
        return Outcome(b"", FailureKind.OUT_OF_MEMORY, f"{type(error).__name__}: {error}")
    text = "".join(traceback.format_exception(error))
    return machine_fault(error) or Outcome(b"", FailureKind.RUN_ERROR, text)
