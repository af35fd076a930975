"""`TrialCounts`: the trials of a task, and the rounds that they came in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tilewright.records import RunnerResult

FAILED_MS = 1e9  # the latency of a candidate that failed
# A gain smaller than this is noise: it does not keep a task from having reached its plateau.
REAL_GAIN = 0.01


@dataclass
class TrialCounts:
    """Counts of trials, failed ones too; saved, so that a later call goes on from them."""

    rounds: int = 0  # complete ones
    restored: int = 0  # candidates of an incomplete round that are counted already
    reused: int = 0  # trials whose measurement was known already
    rematched_at: int = 0  # trials after which the best were measured against each other
    latency_ms: list[float] = field(default_factory=list)
    best_history: list[float] = field(default_factory=list)  # ms, one entry a round
    failures: Counter[str] = field(default_factory=Counter)
    last_error: str | None = None

    @property
    def best_secs(self) -> float | None:
        """The best running time, if there is one."""
        best = min(self.latency_ms, default=FAILED_MS)
        return best / 1e3 if best < FAILED_MS else None

    @property
    def since_gain(self) -> int:
        """How many trials went by without a real improvement."""
        best, position = FAILED_MS, 0
        for number, latency in enumerate(self.latency_ms):
            if latency < best * (1 - REAL_GAIN):
                best, position = latency, number + 1
        return len(self.latency_ms) - position

    def add(self, results: Sequence[RunnerResult], reused: frozenset[int]) -> None:
        """Count the results of a round, but for those that were counted already."""
        new = range(self.restored, len(results))
        for number in new:
            self._count(results[number])
        self.reused += sum(number in reused for number in new)
        self.restored = len(results)

    def _count(self, result: RunnerResult) -> None:
        if result.failure is not None or not result.run_secs:
            self.failures[result.failure.value if result.failure else "run_error"] += 1
            self.last_error = result.error_msg
            self.latency_ms.append(FAILED_MS)
        else:
            self.latency_ms.append(median(result.run_secs) * 1e3)

    def end_round(self) -> None:
        """All candidates of a round are counted."""
        self.restored = 0
        self.rounds += 1
        self.best_history.append(min(self.latency_ms, default=FAILED_MS))

    def forget_restored(self) -> None:
        """The search starts anew: no round is incomplete."""
        self.restored = 0

    def note_final(self) -> None:
        """The best trials so far were measured against each other."""
        self.rematched_at = len(self.latency_ms)

    def correct(self, trial: int, secs: Sequence[float]) -> None:
        """Replace the latency of a trial by that of a final; no seconds: it failed there."""
        if trial < len(self.latency_ms):
            self.latency_ms[trial] = median(secs) * 1e3 if secs else FAILED_MS

    def as_json(self) -> dict[str, object]:
        """Plain values, under the names that databases have them."""
        return {
            "rounds": self.rounds,
            "begun": self.restored,
            "settled": self.rematched_at,
            "latency_ms": list(self.latency_ms),
            "best_history": list(self.best_history),
            "failures": dict(self.failures),
            "last_error": self.last_error,
        }

    @staticmethod
    def from_json(state: Mapping[str, Any]) -> TrialCounts:
        """Read back what `as_json` wrote; all trials were measured by an earlier call."""
        latency = [float(value) for value in state["latency_ms"]]
        return TrialCounts(
            rounds=int(state["rounds"]),
            restored=int(state["begun"]),
            reused=len(latency),
            rematched_at=int(state["settled"]),
            latency_ms=latency,
            best_history=[float(value) for value in state["best_history"]],
            failures=Counter({str(cause): int(n) for cause, n in state["failures"].items()}),
            last_error=state["last_error"],
        )
