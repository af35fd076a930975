"""What the tuner knows of a task while it tunes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import msgspec

from tilewright.database import Database
from tilewright.errors import TuneError
from tilewright.records import (
    FAILED_RUN_SECS,
    MeasureCandidate,
    RunnerResult,
    TuningRecord,
)
from tilewright.schedule import Schedule, Trace
from tilewright.schedule.analysis import estimate_tir_flops
from tilewright.tune.context import TuneContext

FAILED_MS = 1e9  # the latency of a candidate that failed
# A gain smaller than this is noise: it does not keep a task from having reached its plateau.
REAL_GAIN = 0.01


def trace_of(candidate: MeasureCandidate) -> Trace:
    """How a candidate came about."""
    trace = candidate.sch.trace
    if trace is None:
        raise TuneError("a candidate without a trace cannot be kept: use Schedule, traced")
    return trace


def trace_key(trace: Trace) -> bytes:
    """Equal for candidates that were made by the same decisions."""
    return msgspec.json.encode(trace.as_json())


@dataclass
class TaskRecord:
    """One task, its weight in the whole, and what was measured of it."""

    ctx: TuneContext
    task_weight: float = 1.0
    seed: int | None = None
    run: int | None = None
    flop: float = field(init=False)
    sketches: list[Schedule] = field(default_factory=list)
    is_terminated: bool = False
    rounds: int = 0
    reused: int = 0  # trials whose measurement was known already
    latency_ms: list[float] = field(default_factory=list)
    best_history: list[float] = field(default_factory=list)  # ms, one entry a round
    failures: Counter[str] = field(default_factory=Counter)
    known: dict[bytes, RunnerResult] = field(default_factory=dict)
    reused_now: frozenset[int] = frozenset()
    predictions: Sequence[float] = ()
    last_error: str | None = None
    started: float = 0.0
    elapsed: float = 0.0

    def __post_init__(self) -> None:
        assert self.ctx.mod is not None
        self.flop = max(1.0, estimate_tir_flops(self.ctx.mod))

    @property
    def trials(self) -> int:
        """Candidates measured so far, failed ones too."""
        return len(self.latency_ms)

    @property
    def build_error_count(self) -> int:
        """Candidates that did not compile."""
        return self.failures["build_error"]

    @property
    def run_error_count(self) -> int:
        """Candidates that compiled and failed."""
        return sum(self.failures.values()) - self.build_error_count

    @property
    def best_secs(self) -> float | None:
        """The best running time, if there is one."""
        best = min(self.latency_ms, default=FAILED_MS)
        return best / 1e3 if best < FAILED_MS else None

    @property
    def gflops(self) -> float | None:
        """The speed of the best candidate."""
        return None if self.best_secs is None else self.flop / self.best_secs / 1e9

    def trials_since_gain(self) -> int:
        """How many trials went by without a real improvement."""
        best, position = FAILED_MS, 0
        for number, latency in enumerate(self.latency_ms):
            if latency < best * (1 - REAL_GAIN):
                best, position = latency, number + 1
        return self.trials - position

    def learn_known(self, database: Database) -> None:
        """Remember what earlier runs measured of this task, so that nothing is measured twice."""
        assert self.ctx.mod is not None
        if not database.has_workload(self.ctx.mod):
            return
        workload = database.commit_workload(self.ctx.mod)
        for record in database.get_tuning_records_of(workload):
            if _same_target(record, self.ctx):
                self.known.setdefault(trace_key(record.trace), _result_of(record))

    def add_round(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Count a round."""
        for candidate, result in zip(candidates, results, strict=True):
            self.known.setdefault(trace_key(trace_of(candidate)), result)
            if result.failure is not None or not result.run_secs:
                self.failures[result.failure.value if result.failure else "run_error"] += 1
                self.last_error = result.error_msg
                self.latency_ms.append(FAILED_MS)
            else:
                self.latency_ms.append(median(result.run_secs) * 1e3)
        self.rounds += 1
        self.best_history.append(min(self.latency_ms, default=FAILED_MS))

    def extra_of(self, position: int, result: RunnerResult) -> Mapping[str, Any]:
        """What a record says beside its measurement."""
        prediction = self.predictions[position] if position < len(self.predictions) else None
        extra = {
            "protocol": result.protocol or None,
            "seed": self.seed,
            "round": self.rounds,
            "run": self.run,
            "task": self.ctx.task_name,
            "trial": self.trials + position,
            "prediction": None if prediction is None else float(prediction),
            "elapsed": self.elapsed,
            "checked": result.checked,
            "stopped_early": result.stopped_early,
        }
        return {key: value for key, value in extra.items() if value is not None}


def _same_target(record: TuningRecord, context: TuneContext) -> bool:
    if record.target is None or context.target is None:
        return record.target is context.target
    return record.target.fingerprint == context.target.fingerprint


def _result_of(record: TuningRecord) -> RunnerResult:
    failed = record.failure is not None or record.mean_secs >= FAILED_RUN_SECS
    return RunnerResult(
        run_secs=None if failed else record.run_secs,
        error_msg=record.error_msg,
        failure=record.failure,
        checked=bool(record.extra.get("checked")),
        stopped_early=bool(record.extra.get("stopped_early")),
        protocol=str(record.extra.get("protocol", "")),
    )
