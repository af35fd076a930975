"""Measurements of earlier runs: a candidate that has one is not measured again."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.records import (
    FAILED_RUN_SECS,
    MeasureCandidate,
    RunnerResult,
    TuningRecord,
    candidate_hash,
)
from tilewright.search.measured import hash_of_record, trace_key
from tilewright.tune.traces import trace_of


class KnownResults:
    """Results by the program that was measured, or by its trace where a record has no hash."""

    def __init__(self, records: Iterable[TuningRecord] = ()) -> None:
        self._by_hash: dict[str, RunnerResult] = {}
        self._by_trace: dict[str, RunnerResult] = {}
        for record in records:
            self.add_record(record)

    def __len__(self) -> int:
        return len(self._by_hash) + len(self._by_trace)

    def add_record(self, record: TuningRecord) -> None:
        """Remember what a record says; of several for one program, the first."""
        shash, result = hash_of_record(record), result_of(record)
        if shash is not None:
            self._by_hash.setdefault(f"{shash:016x}", result)
        else:
            self._by_trace.setdefault(trace_key(record.trace), result)

    def add(self, candidate: MeasureCandidate, result: RunnerResult) -> None:
        """Remember what was measured just now."""
        self._by_hash.setdefault(candidate_hash(candidate), result)

    def find(self, candidate: MeasureCandidate) -> RunnerResult | None:
        """What is known of a candidate."""
        found = self._by_hash.get(candidate_hash(candidate))
        if found is None and self._by_trace:
            found = self._by_trace.get(trace_key(trace_of(candidate)))
        return found

    @property
    def best_secs(self) -> float | None:
        """The best running time among them."""
        times = [
            min(result.run_secs)
            for results in (self._by_hash, self._by_trace)
            for result in results.values()
            if result.run_secs
        ]
        return min(times, default=None)


def result_of(record: TuningRecord) -> RunnerResult:
    """The result that a record was made of."""
    failed = record.failure is not None or record.mean_secs >= FAILED_RUN_SECS
    return RunnerResult(
        run_secs=None if failed else record.run_secs,
        error_msg=record.error_msg,
        failure=record.failure,
        checked=bool(record.extra.get("checked")),
        stopped_early=bool(record.extra.get("stopped_early")),
        protocol=str(record.extra.get("protocol", "")),
    )
