"""Two sets of measurements side by side: databases, runs in them, and benchmarks' result files.

A side is written as it is found: a path or URL of a database, `DATABASE#RUN` for the records of one
run, `FILE.json` for the result file of a benchmark, `COMMIT:FILE.json` for that file in git.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Annotated

import msgspec

from tilewright.database import Database, open_database, similarity
from tilewright.database.base import by_task, speed_order
from tilewright.database.postgres_connection import without_password
from tilewright.errors import DatabaseError, StoredDataError
from tilewright.ir import structural_hash
from tilewright.records import TuningRecord
from tilewright.report.units import short_target
from tilewright.sharing.intervals import Ratio, mean_ratio, ratio_of
from tilewright.support.decoding import decoding

_Positive = Annotated[float, msgspec.Meta(gt=0)]


@dataclass(frozen=True)
class MeasuredEntry:
    """What was measured of one thing."""

    name: str  # for people
    times: tuple[float, ...]
    unit: str = "s"


@dataclass(frozen=True)
class Side:
    """Measurements by what they are of."""

    name: str
    entries: Mapping[str, MeasuredEntry]


@dataclass(frozen=True)
class ComparedRow:
    """One thing on both sides; the ratio is that of the second to the first."""

    name: str
    first: float
    second: float
    unit: str
    ratio: Ratio


@dataclass(frozen=True)
class Comparison:
    """All that both sides have, and what only one of them has."""

    first: Side
    second: Side
    rows: Sequence[ComparedRow]
    only_first: Sequence[str]
    only_second: Sequence[str]

    @property
    def total(self) -> Ratio | None:
        """The geometric mean of all ratios."""
        return mean_ratio([row.ratio for row in self.rows]) if self.rows else None


def compare(first: Side, second: Side) -> Comparison:
    """What both have, row by row, those that changed most first."""
    shared = [key for key in first.entries if key in second.entries]
    rows = [_row(first.entries[key], second.entries[key]) for key in shared]
    return Comparison(
        first,
        second,
        sorted(rows, key=lambda row: -row.ratio.value),
        [entry.name for key, entry in first.entries.items() if key not in second.entries],
        [entry.name for key, entry in second.entries.items() if key not in first.entries],
    )


def _row(first: MeasuredEntry, second: MeasuredEntry) -> ComparedRow:
    before, after = (sum(entry.times) / len(entry.times) for entry in (first, second))
    return ComparedRow(first.name, before, after, first.unit, ratio_of(second.times, first.times))


# --- sides --------------------------------------------------------------------------------------


def side_from(text: str) -> Side:
    """The measurements that a text names."""
    if text.endswith(".json"):
        return Side(text, _rows_of(_result_file(text), text))
    url, _, number = text.partition("#")
    if number and not number.isdigit():
        raise DatabaseError(f"{text!r}: a run is a number, as in records.db#3; got {number!r}")
    with contextlib.closing(open_database(url, read_only=True)) as database:
        name, run = without_password(text), int(number) if number else None
        if run is not None:
            _require_run(database, run, without_password(url))
        return Side(name, _best_of(database, run))


def _require_run(database: Database, run: int, name: str) -> None:
    known = [str(each.id) for each in database.history.runs()]
    if str(run) not in known:
        told = f"it has {', '.join(known)}" if known else "it has none"
        raise DatabaseError(f"there is no run {run} in {name}; {told}")


def _best_of(database: Database, run: int | None) -> dict[str, MeasuredEntry]:
    """The times of the best record of each task."""
    records = (record for batch in database.record_batches() for record in batch)
    kept = best_records(record for record in records if run in (None, record.extra.get("run")))
    found: dict[str, TuningRecord] = {}
    for record in kept:
        known = found.setdefault(_key(record), record)
        found[_key(record)] = min(known, record, key=speed_order)
    return {key: _entry(record) for key, record in found.items()}


def best_records(records: Iterable[TuningRecord]) -> list[TuningRecord]:
    """The fastest valid record of each workload and target."""
    groups = by_task(record for record in records if record.is_valid)
    return [min(group, key=speed_order) for group in groups.values()]


def _key(record: TuningRecord) -> str:
    """The same for targets that mean the same machine, however they were written."""
    where = None if record.target is None else record.target.fingerprint
    return f"{structural_hash(record.workload.mod):x} {where}"


def _entry(record: TuningRecord) -> MeasuredEntry:
    name = f"{similarity.describe(record.workload.mod)} on {short_target(record.target)}"
    return MeasuredEntry(name, _times(record))


def _times(record: TuningRecord) -> tuple[float, ...]:
    """The times of a record; of one that was in a final, spread as its heats were."""
    times = tuple(record.plain_secs or ())
    if len(times) != 1 or not record.extra.get("final_heat_secs"):
        return times
    try:
        heats = msgspec.convert(record.extra["final_heat_secs"], list[_Positive])
    except msgspec.ValidationError:  # somebody else's
        return times
    return tuple(times[0] * secs / geometric_mean(heats) for secs in heats)


class _ResultRow(msgspec.Struct):
    name: str
    ours: _Positive
    unit: str = ""


class _ResultFile(msgspec.Struct):
    rows: list[_ResultRow]


def _result_file(text: str) -> bytes:
    if Path(text).exists() or ":" not in text:
        try:
            return Path(text).read_bytes()
        except OSError as error:
            raise DatabaseError(f"cannot read {text}: {error.strerror}") from error
    if text.startswith("-"):
        raise DatabaseError(f"{text!r} is not a commit and a file")
    shown = subprocess.run(["git", "show", text], capture_output=True, check=False)
    if shown.returncode:
        reason = " ".join(shown.stderr.decode(errors="replace").split())
        raise DatabaseError(f"git has no {text}: {reason}")
    return shown.stdout


def _rows_of(content: bytes, text: str) -> dict[str, MeasuredEntry]:
    with decoding(f"{text} is not the result file of a benchmark", StoredDataError):
        rows = msgspec.json.decode(content, type=_ResultFile).rows
    return {row.name: MeasuredEntry(row.name, (row.ours,), row.unit) for row in rows}
