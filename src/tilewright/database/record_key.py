"""The key of a record: committing a record again under the same key changes nothing."""

from __future__ import annotations

import hashlib

import msgspec

from tilewright.database.compatibility import identity_of_record
from tilewright.records import TuningRecord


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
