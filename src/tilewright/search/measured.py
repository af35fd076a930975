"""Programs of a task that were measured, and those that a search need not propose again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from tilewright.records import MeasureCandidate, RunnerResult, TuningRecord
from tilewright.schedule import Trace
from tilewright.search.replayer import Draft


class MeasuredResults:
    """Results by the hash of a program, or by its trace where a record has no hash."""

    def __init__(self, records: Iterable[TuningRecord] = ()) -> None:
        self.by_hash: dict[int, RunnerResult] = {}
        self.by_trace: dict[str, RunnerResult] = {}
        for record in records:
            self.add_record(record)

    def __len__(self) -> int:
        return len(self.by_hash) + len(self.by_trace)

    def add_record(self, record: TuningRecord) -> None:
        """Remember what a record says; of several for one program, the first."""
        shash, result = record.program_hash, record.as_result()
        if shash is not None:
            self.by_hash.setdefault(shash, result)
        else:
            self.by_trace.setdefault(trace_key(record.trace), result)

    def add(self, candidate: MeasureCandidate, result: RunnerResult) -> None:
        """Remember what was measured just now."""
        self.by_hash.setdefault(candidate.program_hash, result)

    def find(self, candidate: MeasureCandidate) -> RunnerResult | None:
        """The result of a candidate, if it was measured."""
        found = self.by_hash.get(candidate.program_hash)
        if found is None and self.by_trace:
            found = self.by_trace.get(trace_key(candidate.trace))
        return found

    @property
    def best_secs(self) -> float | None:
        """The best running time among them."""
        results = [*self.by_hash.values(), *self.by_trace.values()]
        return min((min(each.run_secs) for each in results if each.run_secs), default=None)


class KnownCandidates:
    """Candidates that a search has proposed, or that were measured without it."""

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

    def as_json(self) -> dict[str, list[str]]:
        """Plain values."""
        return {
            "hashes": [f"{shash:016x}" for shash in sorted(self.hashes)],
            "traces": sorted(self.traces),
        }

    def include(self, state: Mapping[str, Iterable[str]]) -> None:
        """Add what `as_json` wrote."""
        self.hashes.update(int(text, 16) for text in state["hashes"])
        self.traces.update(state["traces"])


def trace_key(trace: Trace) -> str:
    """A short text that equal traces share, post-processing left out."""
    text = json.dumps(trace.as_json(remove_postproc=True), separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
