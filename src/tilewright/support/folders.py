"""Making directories for what users asked us to write."""

from __future__ import annotations

from pathlib import Path

from tilewright.errors import TuneError


def make_folder(path: str | Path) -> Path:
    """Make a directory, and those above it; one that is there is fine."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TuneError(f"cannot make the directory {folder}: {error.strerror}") from error
    return folder
