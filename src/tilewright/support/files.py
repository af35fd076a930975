"""Writing files in one piece, locking them, and making folders for them."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tilewright.errors import TuneError

try:
    import fcntl
except ImportError:  # Windows: files are written by one process there
    fcntl = None  # type: ignore[assignment] # what a missing module is called


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` once the block is done, and is gone if it fails.

    Pipes and devices have no place to take: what is written goes right into them.
    """
    place = Path(path).resolve()  # a link stays a link
    if place.exists() and not place.is_file():
        with place.open("wb") as file:
            yield file
        return
    draft = place.with_name(f".tilewright-{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as file:
            if place.exists():
                shutil.copymode(place, draft)
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(place)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write a file in one piece; text in UTF-8."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def unchanged_on_failure(folder: Path) -> Iterator[None]:
    """Let files of a folder grow; if the block fails they are as long as before, new ones gone."""
    before = {file: file.stat().st_size for file in folder.glob("*") if file.is_file()}
    was_there = folder.exists()
    try:
        yield
    except BaseException:
        for file in folder.glob("*"):
            if file in before:
                os.truncate(file, before[file])
            elif file.is_file():
                file.unlink()
        if not was_there and folder.exists():
            folder.rmdir()
        raise


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Nobody else who locks the same file is inside at the same time; may raise `OSError`."""
    with path.open("rb") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file frees the lock


def make_folder(path: str | Path) -> Path:
    """Make a directory, and those above it; one that is there is fine."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TuneError(f"cannot make the directory {folder}: {error.strerror}") from error
    return folder
