"""The candidates of a task that need not be measured again: this search's and earlier runs'."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from tilewright.records import CANDIDATE_HASH, TuningRecord, Workload
from tilewright.schedule import Trace
from tilewright.search.base import DatabaseLike
from tilewright.search.replayer import Draft
from tilewright.target import Target

_ALL = 2**31 - 1


class KnownCandidates:
    """Candidates by the hash of their program, or by their trace where a record has no hash."""

    def __init__(self, hashes: Iterable[int] = (), traces: Iterable[str] = ()) -> None:
        self.hashes = set(hashes)
        self.traces = set(traces)

    def __contains__(self, draft: Draft) -> bool:
        if draft.shash in self.hashes:
            return True
        return bool(self.traces) and trace_key(draft.trace) in self.traces

    def __len__(self) -> int:
        return len(self.hashes) + len(self.traces)

    def add(self, draft: Draft) -> None:
        """Remember a draft."""
        self.hashes.add(draft.shash)

    def add_record(self, record: TuningRecord) -> None:
        """Remember what a record measured."""
        shash = hash_of_record(record)
        if shash is None:
            self.traces.add(trace_key(record.trace))
        else:
            self.hashes.add(shash)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "hashes": [f"{shash:016x}" for shash in sorted(self.hashes)],
            "traces": sorted(self.traces),
        }

    def include(self, state: Any) -> None:
        """Add what `as_json` told."""
        self.hashes.update(int(text, 16) for text in state["hashes"])
        self.traces.update(state["traces"])


def hash_of_record(record: TuningRecord) -> int | None:
    """The hash of the program that a record measured, if it was noted."""
    noted = record.extra.get(CANDIDATE_HASH)
    return int(noted, 16) if isinstance(noted, str) else None


def trace_key(trace: Trace) -> str:
    """A short text that equal traces share, post-processing left out."""
    text = json.dumps(trace.as_json(remove_postproc=True), separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def records_of(
    database: DatabaseLike, workload: Workload, target: Target | None
) -> list[TuningRecord]:
    """All records of a workload for the same machine, failed ones too where a database tells."""
    get_all = getattr(database, "get_all_tuning_records", None)
    records = database.get_top_k(workload, _ALL) if get_all is None else get_all()
    return [
        record
        for record in records
        if _same_workload(record.workload, workload) and for_same_machine(record, target)
    ]


def _same_workload(one: Workload, other: Workload) -> bool:
    return one is other or one.shash == other.shash


def for_same_machine(record: TuningRecord, target: Target | None) -> bool:
    """False when a record was measured on a machine that says nothing about the target."""
    if record.target is None or target is None:
        return True
    return record.target.fingerprint == target.fingerprint
