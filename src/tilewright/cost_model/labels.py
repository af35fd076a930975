"""Labels that trees learn to predict, and the scores that predictions become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tilewright.cost_model.samples import Group, Vector
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
