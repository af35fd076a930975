"""A lock that processes share through a file; the system frees it when its holder ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: files are written by one process there
    fcntl = None  # type: ignore[assignment] # what a missing module is called


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Nobody else who locks the same file is inside at the same time; may raise `OSError`."""
    with path.open("rb") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file frees the lock
