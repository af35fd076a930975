"""A folder of compiled code that outlives the process (`TILEWRIGHT_CACHE_DIR`).

An entry is one file, named by its key: a shared library, followed by what is known of it and by a
digest over all of it and the key. The folder must be the user's own, and nobody else's to write to:
who can write there can run code in our processes. Entries that are cut off, changed or made for
another key are not loaded; a fresh one takes their place.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tilewright.config import settings
from tilewright.errors import ConfigError

SUFFIX = ".so"
DEFAULT_LIMIT_BYTES = 256 << 20
_MARKER = b"twcode01"
_TAIL = struct.Struct("<Q32s8s")  # size of the description, digest, marker
_DRAFT_PREFIX = ".draft-"
_STALE_DRAFT_SECS = 3600.0


@dataclass(frozen=True)
class CodeStore:
    """The entries of one folder; which of them were used last decides which go first."""

    folder: Path
    limit_bytes: int = DEFAULT_LIMIT_BYTES

    def path(self, key: str) -> Path:
        """Where the entry of a key is, if there is one."""
        return self.folder / f"{key}{SUFFIX}"

    def description(self, key: str) -> bytes | None:
        """What was stored with the library of a key; None unless the whole entry is intact."""
        path = self.path(key)
        try:
            data = _read_own_file(path)
        except OSError:
            return None
        found = _checked(key, data)
        if found is not None:
            with suppress(OSError):
                os.utime(path)  # used last
        return found

    def put(self, key: str, library: bytes, description: bytes) -> None:
        """Add or replace an entry. A full or read-only disk costs the entry, nothing else."""
        body = library + description
        data = body + _TAIL.pack(len(description), _digest(key, body), _MARKER)
        with suppress(OSError):
            self._make_room(len(data))
            draft = tempfile.NamedTemporaryFile(  # noqa: SIM115 -- it becomes the entry
                prefix=_DRAFT_PREFIX, dir=self.folder, delete=False
            )
            try:
                with draft:
                    draft.write(data)
                os.replace(draft.name, self.path(key))
            except OSError:
                os.unlink(draft.name)

    def entries(self) -> list[Path]:
        """All entries, the one that was not used for longest first."""
        used = [(status.st_mtime_ns, path) for path, status in self._files(SUFFIX)]
        return [path for _, path in sorted(used)]

    def size_bytes(self) -> int:
        """What all entries take together."""
        return sum(status.st_size for _, status in self._files(SUFFIX))

    def clear(self) -> None:
        """Remove all entries."""
        for path in self.entries():
            path.unlink(missing_ok=True)

    def _make_room(self, needed: int) -> None:
        """Remove old entries until another one fits, and drafts that nobody will finish."""
        for path, status in self._files(""):
            age = time.time() - status.st_mtime
            if path.name.startswith(_DRAFT_PREFIX) and age > _STALE_DRAFT_SECS:
                path.unlink(missing_ok=True)
        excess = self.size_bytes() + needed - self.limit_bytes
        for path in self.entries() if excess > 0 else ():
            if excess <= 0:
                break
            excess -= path.stat().st_size
            path.unlink(missing_ok=True)

    def _files(self, suffix: str) -> Iterator[tuple[Path, os.stat_result]]:
        for entry in os.scandir(self.folder):
            with suppress(OSError):
                if entry.name.endswith(suffix):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def open_store(folder: Path) -> CodeStore:
    """The store in a folder, which is made if it is missing; anybody else's folder is refused."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise _refused(folder, f"{error.strerror or error}") from error
    if status.st_uid != os.geteuid():
        raise _refused(folder, f"the folder belongs to user {status.st_uid}")
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise _refused(folder, f"others may write to the folder; run `chmod 700 {folder}`")
    return CodeStore(folder)


def _refused(folder: Path, reason: str) -> ConfigError:
    return ConfigError(f"TILEWRIGHT_CACHE_DIR={str(folder)!r}: {reason}")


def _read_own_file(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(f"{path} is not a file of this user")
        return file.read()


def _checked(key: str, data: bytes) -> bytes | None:
    if len(data) < _TAIL.size:
        return None
    size, digest, marker = _TAIL.unpack(data[-_TAIL.size :])
    body = data[: -_TAIL.size]
    if marker != _MARKER or size > len(body) or digest != _digest(key, body):
        return None
    return body[len(body) - size :]


def _digest(key: str, body: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + body).digest()


@lru_cache(maxsize=1)
def code_store() -> CodeStore | None:
    """The store that the settings ask for."""
    folder = settings().cache_dir
    return None if folder is None else open_store(folder)
