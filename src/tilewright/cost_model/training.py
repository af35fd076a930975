"""Watches trees grow: errors on the training data, and when to stop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.cost_model.pack_sum import PackSum, Vector, average_peak

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
