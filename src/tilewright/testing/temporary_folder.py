"""Folders for the files of a script, as `tvm.contrib.utils.tempdir` makes them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


class TemporaryFolder:
    """A folder that vanishes with this object, unless its path was given."""

    def __init__(self, custom_path: str | None = None) -> None:
        self._owned = None if custom_path else tempfile.TemporaryDirectory(prefix="tilewright-")
        self.temp_dir = custom_path or (self._owned.name if self._owned else "")
        self.path.mkdir(parents=True, exist_ok=True)

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.temp_dir)

    def relpath(self, name: str) -> str:
        """The path of a file in it."""
        return str(self.path / name)

    def listdir(self) -> list[str]:
        """The names of all files in it."""
        return os.listdir(self.temp_dir)

    def remove(self) -> None:
        """Remove it now."""
        if self._owned is not None:
            self._owned.cleanup()
            self._owned = None

    __truediv__ = relpath


tempdir = TemporaryFolder
