"""Faults of the machine: a full disk, too many open files, no memory, no more processes.

They say nothing of the candidate, rule or program that met them. A run stops with one line that
says what is missing and what to do; the next run tries the same again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from tilewright.errors import MachineError, TilewrightError


class _Fault(NamedTuple):
    what: str
    advice: str


_DISK = _Fault(
    "the disk is full",
    "free some space (TMPDIR says where temporary files go), or use another disk",
)
_DEVICE = _Fault("a disk or another device fails", "see the log of the system")
_MEMORY = _Fault(
    "there is no memory left",
    "end other programs, raise the limit (ulimit -v), or use fewer workers",
)
_PROCESSES = _Fault(
    "the system cannot start more processes or threads", "end some, or raise the limit (ulimit -u)"
)

_FAULTS = {
    errno.ENOSPC: _DISK,
    errno.EDQUOT: _Fault("the disk quota is used up", _DISK.advice),
    errno.EFBIG: _Fault("a file grows over the limit for files", "raise it (ulimit -f)"),
    errno.EROFS: _Fault("the file system is read-only", "use another one"),
    errno.EIO: _DEVICE,
    errno.EMFILE: _Fault(
        "too many files are open in one process", "close some, or raise the limit (ulimit -n)"
    ),
    errno.ENFILE: _Fault("too many files are open on this machine", "end other programs"),
    errno.ENOMEM: _MEMORY,
    errno.EAGAIN: _PROCESSES,
}
# What libraries say that do not pass the number on.
_TEXTS = {
    **{os.strerror(number): fault for number, fault in _FAULTS.items()},
    "disk is full": _DISK,
    "disk I/O error": _DEVICE,
    "failed to map segment": _MEMORY,
    "MemoryError": _MEMORY,
    "can't start new thread": _PROCESSES,
    # When the disk is full, no folder for temporary files is good enough.
    "No usable temporary directory": _Fault("no temporary file can be made", _DISK.advice),
}
_NOT_WRITTEN = _Fault("a compiled candidate cannot be kept", "see to its folder (TMPDIR)")
_WITHOUT_NUMBER = (OSError, ImportError, RuntimeError, sqlite3.OperationalError)
GO_ON = "then start again: what was measured is kept"


def machine_fault(error: BaseException) -> MachineError | None:
    """What the machine lacks, if that is why an exception was raised."""
    if isinstance(error, MachineError):
        return error
    for cause in _causes(error):
        fault = _fault_of(cause)
        if fault is not None:
            said = error if isinstance(error, TilewrightError) else cause
            return _as_error(fault, str(said) or type(said).__name__)
    return None


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether an exception was raised for want of memory."""
    return any(_fault_of(cause) is _MEMORY for cause in _causes(error))


def fault_in_words(words: str) -> MachineError | None:
    """The same for what a process wrote before it ended."""
    found = [fault for text, fault in _TEXTS.items() if text in words]
    return _as_error(found[0], words.strip().splitlines()[-1]) if found else None


def not_written(error: OSError, place: str) -> MachineError:
    """The fault that a compiled candidate could not be written, whatever the reason."""
    return _as_error(_fault_of(error) or _NOT_WRITTEN, f"{place}: {error.strerror}")


def no_memory(detail: str) -> MachineError:
    """The fault that there is no memory left."""
    return _as_error(_MEMORY, detail)


@contextlib.contextmanager
def as_machine_faults() -> Iterator[None]:
    """Raise faults of the machine as such, and everything else as it is."""
    try:
        yield
    except Exception as error:
        fault = machine_fault(error)
        if fault is None or fault is error:
            raise
        raise fault from error


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception and those that led to it."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _fault_of(error: BaseException) -> _Fault | None:
    if isinstance(error, MemoryError):
        return _MEMORY
    if isinstance(error, OSError) and error.errno in _FAULTS:
        return _FAULTS[error.errno]
    if isinstance(error, _WITHOUT_NUMBER) and not isinstance(error, TilewrightError):
        return next((fault for text, fault in _TEXTS.items() if text in str(error)), None)
    return None


def _as_error(fault: _Fault, detail: str) -> MachineError:
    line = " ".join(detail.split())
    return MachineError(f"{fault.what} ({line}); {fault.advice}, {GO_ON}")
