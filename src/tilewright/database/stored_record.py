"""Parts of a record as databases store them: program, trace as text, key and extra values.

Programs are found by their hashes, and checked when they are read back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec

from tilewright.database import similarity
from tilewright.database.compatibility import identity_of_record
from tilewright.database.module_equality import get_module_equality
from tilewright.errors import IRError, ScheduleError, StoredDataError, TilewrightError
from tilewright.ir import IRModule
from tilewright.ir.verify import verify_well_formed
from tilewright.records import TuningRecord
from tilewright.schedule import Trace
from tilewright.support.decoding import decoding
from tilewright.support.nesting import nested_deeply
from tilewright.support.text import printable

_T = TypeVar("_T")
_ContentT = TypeVar("_ContentT")


@dataclass(frozen=True)
class Problem:
    """A row that could not be read and was skipped."""

    table: str
    row: int  # its id, or its line counted from 1; 0: all of the table
    reason: str

    def __str__(self) -> str:
        return printable(f"{self.table} {self.row}: {self.reason}", "\n")

    @staticmethod
    def of(table: str, row: int, error: TilewrightError) -> Problem:
        """What an error says about a row."""
        return Problem(table, row, str(error).removeprefix(f"{table} {row}: "))


@contextmanager
def reading_row(table: str, row: int) -> Iterator[None]:
    """Whatever makes a row unreadable inside becomes a `StoredDataError` that names the row."""
    place = f"{table} {row}"
    try:
        with decoding(place, StoredDataError):
            yield
    except StoredDataError as error:
        if str(error).startswith(f"{place}: "):
            raise
        raise StoredDataError(f"{place}: {error}") from error


def readable(
    table: str,
    row: int,
    content: _ContentT,
    read: Callable[[_ContentT], _T],
    report: Callable[[Problem], object],
) -> _T | None:
    """What a row holds; None, and a report, if it is damaged."""
    try:
        with reading_row(table, row):
            return read(content)
    except StoredDataError as error:
        report(Problem.of(table, row, error))
        return None


_SHALLOW = msgspec.json.Decoder(tuple[list[msgspec.Raw], msgspec.Raw])


class StoredTrace(Trace):
    """A trace that is still text. `insts` and `decisions` appear at the first look."""

    def __init__(self, text: bytes, is_canonical: bool = False) -> None:
        # The attributes of the base class are left out on purpose: see `__getattr__`.
        self.text = text
        self.is_canonical = is_canonical  # written by `trace_text`

    def __getattr__(self, name: str) -> object:
        if name not in ("insts", "decisions"):
            raise AttributeError(name)
        with decoding("the stored trace is damaged", ScheduleError):
            document = msgspec.json.decode(self.text)
        read = Trace.from_json(document)
        self.insts, self.decisions = read.insts, read.decisions
        return getattr(self, name)

    def has_steps(self) -> bool:
        """True when something comes before the post-processing; found without reading it all."""
        if "insts" in self.__dict__:
            return super().has_steps()
        try:
            with decoding("the stored trace is damaged", ScheduleError):
                insts, _ = _SHALLOW.decode(self.text)
                return bool(insts) and msgspec.json.decode(insts[0])[:1] != ["EnterPostproc"]
        except ScheduleError:
            return False


def trace_text(trace: Trace) -> bytes:
    """A trace as JSON; the same text for the same trace, wherever it was read."""
    if isinstance(trace, StoredTrace) and trace.is_canonical and "insts" not in trace.__dict__:
        return trace.text
    return msgspec.json.encode(trace.as_json())


def digest(content: bytes) -> bytes:
    """Sixteen bytes that stand for a content."""
    return hashlib.blake2b(content, digest_size=16).digest()


def record_key(workload_hash: int, trace: bytes, record: TuningRecord) -> bytes:
    """The key of a record: workload, trace, target, protocol, and its place in a search.

    Without seed and round, the measurement itself tells two records apart.
    """
    extra = record.extra
    identity = identity_of_record(record)
    target = None if identity is None else identity.fingerprint or dict(identity.description)
    place = [extra.get("seed"), extra.get("round")]
    measured = [record.plain_secs, record.failure] if None in place else None
    parts = [str(workload_hash), target, extra.get("protocol"), place, measured]
    return digest(trace + msgspec.json.encode(parts, order="sorted"))


_Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # what a column holds


class _Known(msgspec.Struct, frozen=True):
    protocol: str | None = None
    seed: _Number | None = None
    round: _Number | None = None
    run: _Number | None = None
    task: str | None = None
    trial: _Number | None = None
    prediction: float | None = None
    elapsed: float | None = None


def checked_extra(extra: Mapping[str, object]) -> Mapping[str, object]:
    """`extra` as it was read; a known key with a value of another type is a `ValueError`."""
    msgspec.convert(extra, _Known)
    return extra


# Under these every workload can be found; other equalities are added where they are used.
MODES = ("structural", "ignore-ndarray", "anchor-block")
ANY_SHAPE, BLOCKS = "any-shape", "blocks"  # for what is similar but not equal


def workload_hashes(mod: IRModule, modes: Iterable[str] = ()) -> dict[str, str]:
    """Hashes by mode, in hexadecimal."""
    equalities = dict.fromkeys((*MODES, *modes))
    hashes = {mode: get_module_equality(mode).hash(mod) for mode in equalities}
    hashes[ANY_SHAPE] = similarity.any_shape_hash(mod)
    hashes[BLOCKS] = similarity.block_structure_hash(mod)
    return {mode: as_hex(value) for mode, value in hashes.items()}


def as_hex(value: int) -> str:
    """A 64-bit hash as it stands in tables, which know no unsigned numbers."""
    return f"{value:016x}"


def usable_module(read: object) -> IRModule:
    """A program that was read back, unless listings, searches and compilers would fall over it."""
    if not isinstance(read, IRModule):
        raise StoredDataError("it is not a module")
    with nested_deeply(IRError, "the program"):
        verify_well_formed(read)
    similarity.describe(read)
    str(read)
    return read
