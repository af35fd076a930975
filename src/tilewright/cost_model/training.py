"""Training of trees: the labels that they learn, the scores that predictions become, and a watch
over their errors that says when to stop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tilewright.cost_model.pack_sum import PackSum, Vector, average_peak
from tilewright.cost_model.samples import Group
from tilewright.records import FAILED_RUN_SECS


class Labels(Protocol):
    """A quantity to learn."""

    def of(self, group: Group, count: int) -> tuple[Vector, Vector]:
        """Labels and weights of the first samples of a workload."""

    def rank(self, predicted: Vector) -> Vector:
        """Predictions such that higher is better."""

    def scores(self, predicted: Vector, priors: Vector, group: Group) -> Vector:
        """Scores from predictions for one workload; higher is better."""


class Throughput:
    """Best time of the workload over that of the sample, with itself as weight, as in TVM."""

    def of(self, group: Group, count: int) -> tuple[Vector, Vector]:
        costs = np.array(group.costs[:count])
        share: Vector = costs.min() / costs
        return share, share

    def rank(self, predicted: Vector) -> Vector:
        return predicted

    def scores(self, predicted: Vector, priors: Vector, group: Group) -> Vector:
        return predicted


@dataclass(frozen=True)
class LogTime:
    """The logarithm of the time, less what the prior says and less the mean of the workload.

    On 64 samples of a matrix product this ranks 4 of 5 pairs right where `Throughput`, which looks
    away from all that is slow, ranks 7 of 10. After `half_trust` samples of a workload half of a
    prediction is believed: so few samples make it worse than a good prior, if believed at once.
    """

    half_trust: int = 0

    def of(self, group: Group, count: int) -> tuple[Vector, Vector]:
        residuals = _residuals(group, count)
        return residuals - residuals.mean(), np.ones(count)

    def rank(self, predicted: Vector) -> Vector:
        return -predicted

    def scores(self, predicted: Vector, priors: Vector, group: Group) -> Vector:
        """The best time so far over the predicted time."""
        count = group.num_trained
        trust = count / (count + self.half_trust) if self.half_trust else 1.0
        log_time = priors + trust * predicted
        if count:
            log_time = log_time + _residuals(group, count).mean() - np.log2(group.min_cost)
        return np.exp2(-log_time)


def _residuals(group: Group, count: int) -> Vector:
    costs, priors = np.array(group.costs[:count]), np.array(group.priors[:count])
    failed = costs >= FAILED_RUN_SECS
    if failed.all():
        return np.zeros(count)
    residuals: Vector = np.log2(costs) - priors
    # A failure is worse than anything that ran, but how much worse means nothing.
    residuals[failed] = residuals[~failed].max() + 1
    return residuals


LABELS: dict[str, Labels] = {"log_time": LogTime(), "throughput": Throughput()}
RESIDUAL: Labels = LogTime(half_trust=32)


_logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class TrainingWatch:
    """Follows the rounds of one training; after `finish` only the figures are left.

    It stops when the error has not fallen for `early_stopping_rounds`, and logs both metrics every
    `verbose_eval` rounds. `rank` turns predictions into scores (higher is better).
    """

    _data: PackSum
    _throughputs: Vector
    _rank: Callable[[Vector], Vector]
    _patience: int
    _verbose_eval: int
    _peak_n: int
    num_rounds: int = 0
    best_round: int = 0
    p_rmse: float = float("inf")  # of the best round
    average_peak: float = 0.0  # of the last round

    def __post_init__(self) -> None:
        self.num_samples = self._data.num_samples

    def on_round(self, number: int, row_scores: Vector) -> bool:
        """Take note of a round; False: enough."""
        self.num_rounds = number + 1
        error = self._data.rmse(row_scores)
        if error < self.p_rmse:
            self.p_rmse, self.best_round = error, number
        wanted = self._verbose_eval and number % self._verbose_eval == 0
        if wanted and _logger.isEnabledFor(logging.DEBUG):
            peak = self._peak(row_scores)
            _logger.debug(
                "round %3d: tr-p-rmse: %.6f\ttr-a-peak@%d: %.6f",
                number, error, self._peak_n, peak,
            )  # fmt: skip
        return number - self.best_round < self._patience

    def finish(self, row_scores: Vector) -> None:
        """The scores of the finished trees."""
        self.average_peak = self._peak(row_scores)
        del self._data, self._throughputs  # as large as all samples together
        _logger.debug(
            "stopped after %d rounds on %d samples; best round %d: tr-p-rmse: %.6f\t"
            "tr-a-peak@%d: %.6f",
            self.num_rounds, self.num_samples, self.best_round, self.p_rmse,
            self._peak_n, self.average_peak,
        )  # fmt: skip

    def _peak(self, row_scores: Vector) -> float:
        scores = self._rank(self._data.sum(row_scores))
        return average_peak(scores, self._throughputs, self._peak_n)
