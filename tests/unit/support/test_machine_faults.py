"""What the machine lacks, as one line."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable

import pytest

from tilewright.errors import DatabaseError, MachineError, TuneError
from tilewright.support.machine_faults import (
    as_machine_faults,
    fault_in_words,
    is_lack_of_memory,
    machine_fault,
)

GO_ON = "then start again: what was measured is kept"


def system(number: int, *place: str) -> OSError:
    return OSError(number, os.strerror(number), *place)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            system(errno.ENOSPC, "/tmp/x"),
            "the disk is full ([Errno 28] No space left on device: '/tmp/x'); free some space "
            "(TMPDIR says where temporary files go), or use another disk",
        ),
        (
            system(errno.EMFILE),
            "too many files are open in one process ([Errno 24] Too many open files); close some, "
            "or raise the limit (ulimit -n)",
        ),
        (
            system(errno.EAGAIN),
            "the system cannot start more processes or threads ([Errno 11] Resource temporarily "
            "unavailable); end some, or raise the limit (ulimit -u)",
        ),
        (
            MemoryError(),
            "there is no memory left (MemoryError); end other programs, raise the limit "
            "(ulimit -v), or use fewer workers",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"),
            "no temporary file can be made ([Errno 2] No usable temporary directory found in "
            "['/tmp']); free some space (TMPDIR says where temporary files go), or use another "
            "disk",
        ),
        (
            sqlite3.OperationalError("database or disk is full"),
            "the disk is full (database or disk is full); free some space (TMPDIR says where "
            "temporary files go), or use another disk",
        ),
        (
            ImportError("libLLVM.so: failed to map segment from\nshared object"),
            "there is no memory left (libLLVM.so: failed to map segment from shared object); end "
            "other programs, raise the limit (ulimit -v), or use fewer workers",
        ),
        (FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)), None),
        (ValueError("No space left on device"), None),
        (TuneError("disk is full"), None),
    ],
)
@pytest.mark.skipif(os.uname().sysname != "Linux", reason="numbers and words of Linux")
def test_faults(error: Exception, message: str | None) -> None:
    found = machine_fault(error)
    assert (None if found is None else str(found)) == (message and f"{message}, {GO_ON}")


def raised(make: Callable[[], Exception], cause: Exception, *, explicit: bool) -> Exception:
    try:
        try:
            raise cause
        except Exception as error:
            raise make() from (error if explicit else None)
    except Exception as error:
        return error


def test_the_cause_of_an_error_counts() -> None:
    def make() -> Exception:
        return DatabaseError("the database x.db cannot be used")

    found = machine_fault(raised(make, system(errno.ENOSPC), explicit=True))
    assert str(found).startswith("the disk is full (the database x.db cannot be used); free ")
    assert machine_fault(raised(make, system(errno.ENOSPC), explicit=False)) is None


def test_errors_that_cause_each_other() -> None:
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert machine_fault(first) is None


def test_only_faults_change_on_their_way() -> None:
    for error in (ValueError("mine"), MachineError("known already")):
        with pytest.raises(type(error)) as caught, as_machine_faults():
            raise error
        assert caught.value is error
    with pytest.raises(MachineError) as found, as_machine_faults():
        raise system(errno.ENOSPC)
    assert isinstance(found.value.__cause__, OSError)


def test_words_of_a_process_that_ended() -> None:
    words = "Traceback (most recent call last):\n  x = y\nMemoryError"
    assert str(fault_in_words(words)).startswith("there is no memory left (MemoryError); ")
    assert fault_in_words("Segmentation fault") is None


def test_lack_of_memory() -> None:
    assert is_lack_of_memory(raised(lambda: ValueError(), MemoryError(), explicit=True))
    assert is_lack_of_memory(system(errno.ENOMEM))
    assert not is_lack_of_memory(system(errno.ENOSPC))
