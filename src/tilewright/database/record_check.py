"""Checks a record before its first use: its author may be anybody, and results must not change.

Steps that promise nothing (`unsafe_*`) are refused. All others are compared with the plain program
on random data the first time that they are used on a machine. What was found lies in the user's
cache directory, not in the database, which whoever sent it could have filled in.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from pathlib import Path

from tilewright.config import user_cache_dir
from tilewright.database import similarity
from tilewright.database.stored_record import digest, trace_text
from tilewright.errors import TilewrightError
from tilewright.ir import IRModule
from tilewright.ir.json import save_json
from tilewright.measure.plain_comparison import difference_from_plain, why_not_compared
from tilewright.records import TuningRecord
from tilewright.support.files import write_whole
from tilewright.target import Target
from tilewright.version import __version__

logger = logging.getLogger("tilewright.database")
_FOLDER = "checked_records"


def unsafe_step(record: TuningRecord) -> str | None:
    """The first step of a record that may change results by its nature."""
    methods = (inst.primitive.method for inst in record.trace.insts)
    return next((method for method in methods if method.startswith("unsafe_")), None)


def complaint_about(record: TuningRecord, scheduled: IRModule, target: Target) -> str:
    """What is wrong with the results of a record; found out once a machine. Empty: nothing."""
    plain = record.workload.mod
    reason = why_not_compared(plain, target)
    if reason:
        logger.info("a record of %s is used unchecked: %s", similarity.describe(plain), reason)
        return ""
    place = _place(record, target)
    known = _read(place)
    if known is not None:
        return known
    try:
        found = difference_from_plain(plain, scheduled, target)
    except TilewrightError as error:
        logger.info("a record of %s is used unchecked: %s", similarity.describe(plain), error)
        return ""
    _write(place, found)
    return found


def _place(record: TuningRecord, target: Target) -> Path:
    """The file for a record: a name for its content, this machine and this version."""
    machine = f"{target} {target.fingerprint} {Target('llvm').fingerprint} {__version__}"
    parts = (save_json(record.workload.mod).encode(), trace_text(record.trace), machine.encode())
    return user_cache_dir() / _FOLDER / digest(b"\0".join(parts)).hex()


def _read(place: Path) -> str | None:
    try:
        if not _is_private(place.parent):
            return None
        return place.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return None


def _write(place: Path, found: str) -> None:
    """Without a place to write, the next process finds out again."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(place, found)


def _is_private(folder: Path) -> bool:
    """Nobody but this user could have written there."""
    found = folder.stat()
    others = stat.S_IWGRP | stat.S_IWOTH
    return found.st_uid == os.getuid() and not found.st_mode & others
