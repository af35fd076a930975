"""`FeatureExtractor`: the contract of extractors of features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.records import MeasureCandidate
from tilewright.space.base import Member, TaskContext
from tilewright.support.plugins import Family

Matrix = npt.NDArray[np.float64]


class FeatureMatrix(np.ndarray[Any, np.dtype[np.float64]]):
    """A matrix that also answers to `.numpy()`, as those of TVM's extractors do."""

    def numpy(self) -> Matrix:
        """The plain array."""
        return self.view(np.ndarray)


class FeatureExtractor(Member, ABC):
    """Turns candidates into matrices: a row for each store, a column for each feature."""

    @abstractmethod
    def extract_from(
        self, context: TaskContext, candidates: Sequence[MeasureCandidate]
    ) -> list[Matrix]:
        """One matrix a candidate."""

    @staticmethod
    def create(
        kind: str = "per-store-feature", *args: object, **options: object
    ) -> FeatureExtractor:
        """An extractor by name."""
        return feature_extractors.create(kind, *args, **options)


feature_extractors: Family[FeatureExtractor] = Family(
    "feature extractor", "tilewright.feature_extractor"
)
