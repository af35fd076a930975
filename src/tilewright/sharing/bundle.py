"""One kernel in one file: a JSON document that rebuilds, checks and measures it elsewhere.

The program is its script, the schedule is the trace; no part of the file is code that is run as it
is. Reading it checks sizes and types, and that it is as it was written; `opening.py` does the rest.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Annotated, Any

import msgspec

from tilewright.database.stored_record import digest
from tilewright.errors import DatabaseError, StoredDataError, TilewrightError
from tilewright.ir import structural_equal
from tilewright.records import TuningRecord, normalize_mod
from tilewright.script import from_source
from tilewright.support.decoding import decoding
from tilewright.support.files import write_whole
from tilewright.version import __version__

FORMAT = 1
MOST_BYTES = 16 << 20
SUFFIX = ".twb"

_Text = Annotated[str, msgspec.Meta(max_length=4 << 20)]
_ShortText = Annotated[str, msgspec.Meta(max_length=10_000)]
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=1e10)]
_Steps = Annotated[list[Any], msgspec.Meta(max_length=10_000)]


class Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file."""

    tilewright_bundle: int
    made_by: _ShortText
    program: _Text  # script
    trace: tuple[_Steps, _Steps]  # instructions and decisions, as TVM writes them
    target: dict[str, Any] | None
    run_secs: Annotated[list[_Seconds], msgspec.Meta(max_length=10_000)] | None
    failure: _ShortText | None
    error_msg: _ShortText | None
    protocol: _ShortText
    digest: _ShortText = ""  # of all the rest

    def content_digest(self) -> str:
        """What tells a damaged file from a whole one."""
        parts = {**msgspec.structs.asdict(self), "digest": ""}
        return digest(msgspec.json.encode(parts, order="sorted")).hex()


def bundle_of(record: TuningRecord) -> Bundle:
    """A record with its program, to be sent."""
    mod = record.workload.mod
    text = mod.script(show_meta=True)
    try:
        is_same = structural_equal(normalize_mod(from_source(text)), mod)
    except TilewrightError:
        is_same = False
    if not is_same:
        raise DatabaseError(
            "the program of this record cannot be written as script and read back; send the "
            "database instead, `tilewright db export FILE.json` writes it"
        )
    trace, _, target, _ = record.as_json()
    made = Bundle(
        tilewright_bundle=FORMAT,
        made_by=__version__,
        program=text,
        trace=msgspec.convert(trace, tuple[list[Any], list[Any]]),
        target=target,
        run_secs=record.plain_secs if record.is_valid else None,
        failure=None if record.failure is None else record.failure.value,
        error_msg=None if record.error_msg is None else record.error_msg[:10_000],
        protocol=record.protocol,
    )
    return msgspec.structs.replace(made, digest=made.content_digest())


def write_bundle(bundle: Bundle, path: Path) -> None:
    """Write it, whole or not at all."""
    content = msgspec.json.encode(bundle)
    if len(content) > MOST_BYTES:
        raise DatabaseError(f"{path} would have {len(content):,} bytes, more than {MOST_BYTES:,}")
    try:
        write_whole(path, content)
    except OSError as error:
        raise DatabaseError(f"cannot write {path}: {error.strerror}") from error


def read_bundle(path: Path) -> Bundle:
    """What a file holds; nothing of it was looked at more closely."""
    content = _content(path)
    with decoding(f"{path} is not a bundle that can be opened", StoredDataError):
        found = msgspec.json.decode(content)
        version = found.get("tilewright_bundle") if isinstance(found, dict) else None
        if version != FORMAT:
            raise ValueError(f'expected "tilewright_bundle": {FORMAT}, got {version!r:.40}')
        bundle = msgspec.convert(found, Bundle)
        if bundle.content_digest() != bundle.digest:
            raise ValueError("it was changed after it was written")
    return bundle


def _content(path: Path) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise DatabaseError(f"{path} is not a file")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DatabaseError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise StoredDataError(f"{path} has more than {MOST_BYTES:,} bytes; no bundle has")
    return content
