"""Names for records that stay the same wherever a record goes: the start of a hash, as in git."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.database.base import Database
from tilewright.database.stored_record import record_key, trace_text
from tilewright.ir import structural_hash
from tilewright.records import TuningRecord, Workload

LENGTH = 10
SHORTEST = 4


def record_id(record: TuningRecord) -> str:
    """The name of a record: what was measured, how, and with which result."""
    return _full_id(record, structural_hash(record.workload.mod))[:LENGTH]


def find_records(database: Database, prefix: str) -> list[tuple[str, TuningRecord]]:
    """The records of a database whose name starts with a text."""
    return named(database.get_all_tuning_records(), prefix)


def named(records: Iterable[TuningRecord], prefix: str) -> list[tuple[str, TuningRecord]]:
    """The records among some whose name starts with a text."""
    hashes: dict[Workload, int] = {}
    found = []
    for record in records:
        if record.workload not in hashes:
            hashes[record.workload] = structural_hash(record.workload.mod)
        name = _full_id(record, hashes[record.workload])
        if name.startswith(prefix.lower()):
            found.append((name[:LENGTH], record))
    return found


def looks_like_id(text: str) -> bool:
    """Whether a text could be the start of a name."""
    return len(text) >= SHORTEST and set(text.lower()) <= set("0123456789abcdef")


def _full_id(record: TuningRecord, workload_hash: int) -> str:
    return record_key(workload_hash, trace_text(record.trace), record).hex()
