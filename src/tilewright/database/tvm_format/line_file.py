"""A file of lines that grows at its end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


class LineFile:
    """Lines of bytes, without their ends. What was appended is on disk when the call returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[bytes]:
        """All lines; the last one may be cut off if its writer was killed."""
        return self.path.read_bytes().split(b"\n") if self.path.exists() else []

    def append(self, lines: Sequence[str]) -> None:
        """Add lines at the end, in one piece."""
        if not lines:
            return
        content = "".join(f"{line}\n" for line in lines).encode()
        with self.path.open("ab") as file:
            if file.tell() and not self._ends_with_newline():
                content = b"\n" + content  # do not continue a line that was cut off
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def _ends_with_newline(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def rewrite(self, lines: Sequence[bytes]) -> None:
        """Replace all lines at once: who reads meanwhile sees the old file or the new one."""
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        with temporary.open("wb") as file:
            file.writelines(line + b"\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)
