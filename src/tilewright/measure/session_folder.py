"""A temporary folder that goes away with its owner, even if the owner is killed.

The owner holds a lock on a file in it for as long as it lives. Whoever makes the next such folder
removes those whose lock nobody holds any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
import weakref
from pathlib import Path

from tilewright.support.machine_faults import as_machine_faults

_PREFIX = "tilewright-build-"
_LOCK_NAME = "lock"
_JUST_MADE_SECS = 60.0  # a folder so young may be waiting for its lock


class SessionFolder:
    """A folder for the files of one session."""

    def __init__(self) -> None:
        with as_machine_faults():
            remove_abandoned_folders()
            self.path = tempfile.mkdtemp(prefix=_PREFIX)
            lock = os.open(Path(self.path) / _LOCK_NAME, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Remove the folder now."""
        self._finalizer()


def remove_abandoned_folders() -> None:
    """Remove the folders of sessions that did not live to do it themselves."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _JUST_MADE_SECS and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    if folder.stat().st_uid != os.getuid():
        return False
    lock = os.open(folder / _LOCK_NAME, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _remove(path: str, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # and not a fork of it
        shutil.rmtree(path, ignore_errors=True)
    os.close(lock)
