"""A cost model of your own: it learns from measurements and scores what was not measured yet.

This one is linear: the logarithm of the time from the features of the costliest store, by ridge
regression. After some thirty measurements it ranks about three of four pairs right.

    python examples/custom_cost_model.py
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright import meta_schedule as ms
from tilewright.testing.handwritten import matmul

SIZE = 128
ROUND, ROUNDS = 12, 3


@ms.derived_object
class LinearModel(ms.cost_model.PyCostModel):
    """Ridge regression; before it has learned anything all candidates are equal."""

    def __init__(self, ridge: float = 10.0) -> None:
        self.ridge = ridge
        self.extractor = ms.feature_extractor.PerStoreFeature()
        self.rows: npt.NDArray[np.float64] | None = None  # of all candidates so far
        self.log_secs: npt.NDArray[np.float64] = np.empty(0)

    def update(
        self,
        context: Any,
        candidates: Sequence[ms.MeasureCandidate],
        results: Sequence[ms.runner.RunnerResult],
    ) -> None:
        ran = [(c, r.run_secs) for c, r in zip(candidates, results, strict=True) if r.run_secs]
        if not ran:
            return
        rows = self._rows(context, [candidate for candidate, _ in ran])
        self.rows = rows if self.rows is None else np.vstack([self.rows, rows])
        logs = np.log([median(secs) for _, secs in ran])
        self.log_secs = np.concatenate([self.log_secs, logs])

    def predict(
        self, context: Any, candidates: Sequence[ms.MeasureCandidate]
    ) -> npt.NDArray[np.float64]:
        """One score a candidate: the higher, the better."""
        if self.rows is None or not candidates:
            return np.zeros(len(candidates))
        known = self._scaled(self.rows)
        weights = np.linalg.solve(
            known.T @ known + self.ridge * np.eye(known.shape[1]),
            known.T @ (self.log_secs - self.log_secs.mean()),
        )
        return -self._scaled(self._rows(context, candidates)) @ weights

    def _scaled(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Every feature counts the same; what was never seen does not count more than that."""
        assert self.rows is not None
        scale = self.rows.std(axis=0) + 1e-9
        return np.clip((rows - self.rows.mean(axis=0)) / scale, -3, 3)

    def _rows(
        self, context: Any, candidates: Sequence[ms.MeasureCandidate]
    ) -> npt.NDArray[np.float64]:
        """One row a candidate: the largest of each feature, which range over many magnitudes."""
        features = self.extractor.extract_from(context, candidates)
        return np.array([np.log1p(np.abs(each)).max(axis=0) for each in features])

    def save(self, path: str) -> None:
        with open(path, "wb") as file:
            np.savez(file, rows=self.rows if self.rows is not None else [], secs=self.log_secs)

    def load(self, path: str) -> None:
        with np.load(path) as stored:
            self.log_secs = stored["secs"]
            self.rows = stored["rows"] if self.log_secs.size else None


def pairs_ranked_right(records: Sequence[ms.database.TuningRecord]) -> str:
    """How often the faster one of two candidates had got the higher score."""
    known = [(record.extra["prediction"], record.mean_secs) for record in records]
    pairs = [(one, other) for i, one in enumerate(known) for other in known[:i]]
    right = sum((one[0] > other[0]) == (one[1] < other[1]) for one, other in pairs)
    return f"{right} of {len(pairs)} pairs ranked right"


def best_us(records: Sequence[ms.database.TuningRecord]) -> float:
    """The best time, in microseconds."""
    return min(record.mean_secs for record in records) * 1e6


def main() -> None:
    """Let it learn from random candidates and rank others; then let it lead a search."""
    func, model = matmul(SIZE, SIZE, SIZE), LinearModel()
    options = {"num_trials_per_iter": ROUND, "cost_model": model, "space": "llvm", "seed": 0}
    random = ms.tune_tir(
        func,
        "llvm",
        max_trials_global=ROUNDS * ROUND,
        strategy="replay-trace",
        console=False,
        **options,
    )
    for number in range(ROUNDS):
        records = [r for r in random.get_all_tuning_records() if r.extra["round"] == number]
        told = pairs_ranked_right(records) if number else "nothing was known yet"
        print(f"round {number}, random: best {best_us(records):.0f} us, {told}")
    led = ms.tune_tir(func, "llvm", max_trials_global=ROUND, console=False, **options)
    print(f"led by the model: best {best_us(led.get_all_tuning_records()):.0f} us")


if __name__ == "__main__":
    main()
