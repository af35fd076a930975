"""Samples with several rows: a model scores rows, and the score of a sample is their sum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.floating]
Vector = npt.NDArray[np.float64]


class PackSum:
    """Rows of all samples, one under the other; with labels they are training data."""

    def __init__(
        self,
        features: Sequence[Matrix],
        labels: Vector | None = None,
        weights: Vector | None = None,
    ) -> None:
        lengths = [len(rows) for rows in features]
        self.rows = np.concatenate(list(features))
        self.ids = np.repeat(np.arange(len(lengths)), lengths)
        self.num_samples = len(lengths)
        self.labels = np.zeros(self.num_samples) if labels is None else labels
        self.weights = np.ones(self.num_samples) if weights is None else weights

    def sum(self, row_scores: Vector) -> Vector:
        """Scores of samples from scores of rows."""
        total: Vector = np.bincount(self.ids, row_scores, self.num_samples).astype(np.float64)
        return total

    def constant(self) -> float:
        """The score that fits best where all rows get the same."""
        count = np.bincount(self.ids, minlength=self.num_samples)
        size = float((self.weights * count * count).sum())
        return float((self.weights * count * self.labels).sum()) / size if size else 0.0

    def gradients(self, row_scores: Vector) -> tuple[Vector, Vector]:
        """First and second derivatives of the weighted square error, row by row."""
        error = (self.sum(row_scores) - self.labels) * self.weights
        return error[self.ids], self.weights[self.ids]

    def rmse(self, row_scores: Vector) -> float:
        """Root mean square error, in which a sample counts once for each of its rows."""
        error = (self.sum(row_scores) - self.labels)[self.ids]
        return float(np.sqrt(np.mean(error * error)))


def average_peak(scores: Vector, throughputs: Vector, top_n: int) -> float:
    """How much of the best throughput the top-scored samples reach, averaged over 1 ... top_n."""
    order = np.argsort(-scores, kind="stable")[:top_n]
    best = throughputs.max()
    if best <= 0:
        return 0.0
    return float(np.mean(np.maximum.accumulate(throughputs[order]) / best))
