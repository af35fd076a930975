"""Names for records that stay the same wherever a record goes: the start of a hash, as in git."""

from __future__ import annotations

from tilewright.database.base import Database
from tilewright.database.stored_record import record_key, trace_text
from tilewright.database.task_queries import NAME_LENGTH
from tilewright.ir import structural_hash
from tilewright.records import TuningRecord

SHORTEST = 4


def record_id(record: TuningRecord) -> str:
    """The name of a record: what was measured, how, and with which result."""
    key = record_key(structural_hash(record.workload.mod), trace_text(record.trace), record)
    return key.hex()[:NAME_LENGTH]


def find_records(database: Database, prefix: str) -> list[tuple[str, TuningRecord]]:
    """The records of a database whose name starts with a text."""
    return database.tasks.named(prefix)


def looks_like_id(text: str) -> bool:
    """Whether a text could be the start of a name."""
    return len(text) >= SHORTEST and set(text.lower()) <= set("0123456789abcdef")
