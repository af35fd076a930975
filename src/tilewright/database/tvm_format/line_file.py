"""A file of lines that grows at its end, written by several processes in turn."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilewright.errors import DatabaseError
from tilewright.support.files import file_lock, replacing

NumberedLine = tuple[int, bytes]  # counted from 1, without its end


class LineFile:
    """Lines of bytes. What was appended is on disk when the call returns, or was taken back.

    Whoever appends holds the lock and has read what others appended: `new_lines` gives it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start_over()

    def _start_over(self) -> None:
        self._end = 0  # of what was read
        self._number = 1  # of the line that begins or goes on there
        self._identity: tuple[int, int] | None = None

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """No other process that locks this file reads or writes meanwhile."""
        with _told("lock", self.path), contextlib.ExitStack() as stack:
            stack.enter_context(file_lock(self.path))
            held = stack.pop_all()
        with held:
            yield

    # --- reading ----------------------------------------------------------------------------

    def read(self) -> list[bytes]:
        """All lines; the last one may be cut off if its writer was killed."""
        with _told("read", self.path):
            return self.path.read_bytes().split(b"\n") if self.path.exists() else []

    def new_lines(self) -> list[NumberedLine]:
        """Lines that were added since the last call, but for empty ones."""
        with _told("read", self.path), self.path.open("rb") as file:
            self._identity = _identity(file.fileno())
            if os.fstat(file.fileno()).st_size < self._end:
                raise DatabaseError(
                    f"{self.path} became shorter while it was in use; open the database again"
                )
            file.seek(self._end)
            added = file.read()
        pieces = added.split(b"\n")
        found = [(self._number + place, piece) for place, piece in enumerate(pieces)]
        self._end += len(added)
        self._number += len(pieces) - 1
        return [(number, line) for number, line in found if line.strip()]

    def was_replaced(self) -> bool:
        """True once after somebody else rewrote the file, which is then read from its beginning."""
        with _told("read", self.path), self.path.open("rb") as file:
            is_new = self._identity not in (None, _identity(file.fileno()))
        if is_new:
            self._start_over()
        return is_new

    # --- writing ----------------------------------------------------------------------------

    def append(self, lines: Sequence[str]) -> None:
        """Add lines at the end, all or none."""
        if not lines:
            return
        content = "".join(f"{line}\n" for line in lines).encode()
        with _told("write to", self.path), self.path.open("r+b") as file:
            before = file.seek(0, os.SEEK_END)
            if before and not self._ends_with_newline():
                content = b"\n" + content  # do not continue a line that was cut off
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(file.fileno(), before)
                raise
        self._end = before + len(content)
        self._number += content.count(b"\n")

    def _ends_with_newline(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def rewrite(self, lines: Sequence[bytes]) -> None:
        """Replace all lines at once: who reads meanwhile sees the old file or the new one."""
        with _told("write to", self.path), replacing(self.path) as file:
            file.writelines(line + b"\n" for line in lines)
        self._start_over()
        self.new_lines()


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def _told(action: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DatabaseError(f"cannot {action} {path}: {error.strerror or error}") from error
