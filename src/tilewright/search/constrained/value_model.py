"""`ValueModel`: boosted trees on the values of all variables of a problem."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.cost_model.boosters import HISTOGRAM, BoosterConfig, Trees
from tilewright.cost_model.pack_sum import PackSum
from tilewright.solver.base import Columns

Scores = NDArray[np.float64]

_CONFIG = BoosterConfig(
    max_depth=5, eta=0.3, gamma=1e-5, min_child_weight=0.0, reg_lambda=1.0, num_boost_round=60,
    seed=1, nthread=1,
)  # fmt: skip
_LEAST_SAMPLES = 4
_JUDGED = 256  # rows that importance is judged on


class ValueModel:
    """Expects scores from values; what failed teaches nothing."""

    def __init__(self) -> None:
        self._trees: Trees | None = None
        self._rows: NDArray[np.float64] = np.zeros((0, 0))

    @property
    def is_trained(self) -> bool:
        """True when it has learnt something."""
        return self._trees is not None

    def fit(self, points: Columns, scores: Scores) -> None:
        """Learn from all measurements anew."""
        worked = scores > 0
        if np.count_nonzero(worked) < _LEAST_SAMPLES:
            return
        self._rows = _features(points[worked])
        labels = scores[worked] / scores[worked].max()
        data = PackSum([row[None, :] for row in self._rows], labels)
        self._trees = HISTOGRAM.train(data, _CONFIG, lambda number, scores: True)

    def predict(self, points: Columns) -> Scores:
        """Expected scores, as shares of the best."""
        if self._trees is None:
            return np.ones(len(points))
        return np.asarray(self._trees.predict(_features(points)), dtype=np.float64)

    def importance(self, rng: np.random.Generator) -> Scores:
        """For each variable how much predictions change when its values are shuffled."""
        if self._trees is None:
            return np.zeros(self._rows.shape[1])
        rows = self._rows[-_JUDGED:]
        before = self._trees.predict(rows)
        found = np.zeros(rows.shape[1])
        for column in np.flatnonzero(np.ptp(rows, axis=0)):
            shuffled = rows.copy()
            shuffled[:, column] = rng.permutation(shuffled[:, column])
            found[column] = np.abs(self._trees.predict(shuffled) - before).mean()
        return found


def _features(points: Columns) -> NDArray[np.float64]:
    return np.log2(1.0 + np.maximum(points, 0))
