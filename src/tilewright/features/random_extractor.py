"""`RandomFeatureExtractor`: noise in the shape of features, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.features.base import FeatureExtractor, FeatureMatrix, Matrix, feature_extractors
from tilewright.records import MeasureCandidate
from tilewright.space.base import TaskContext


@feature_extractors.register("random")
class RandomFeatureExtractor(FeatureExtractor):
    """From 1 to `max_block_num` rows of `feature_size` random numbers for each candidate."""

    def __init__(self, *, feature_size: int = 30, max_block_num: int = 5, seed: int = 0) -> None:
        self.feature_size = feature_size
        self.max_block_num = max_block_num
        self._random = np.random.RandomState(seed)

    @property
    def random_state(self) -> object:
        """The state of the noise; set it again, and the same noise follows."""
        return self._random.get_state()

    @random_state.setter
    def random_state(self, state: Any) -> None:
        self._random.set_state(state)

    def extract_from(
        self, context: TaskContext, candidates: Sequence[MeasureCandidate]
    ) -> list[Matrix]:
        counts = (self._random.randint(1, self.max_block_num + 1) for _ in candidates)
        return [self._random.rand(rows, self.feature_size).view(FeatureMatrix) for rows in counts]
