"""`CostModel`: the contract of models that score candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from tilewright.records import Candidates, RunnerResults
from tilewright.space.base import Member, TaskContext
from tilewright.support.plugins import Family


class CostModel(Member, ABC):
    """Scores candidates before they are measured; the higher, the better."""

    @abstractmethod
    def load(self, path: str) -> None:
        """Go on from what `save` wrote."""

    @abstractmethod
    def save(self, path: str) -> None:
        """Write down everything that was learned."""

    @abstractmethod
    def update(self, context: TaskContext, candidates: Candidates, results: RunnerResults) -> None:
        """Learn from measurements."""

    @abstractmethod
    def predict(self, context: TaskContext, candidates: Candidates) -> npt.NDArray[np.float64]:
        """One score a candidate."""

    @staticmethod
    def create(kind: str, *args: object, **options: object) -> CostModel | None:
        """A model by name; "none" is none."""
        if kind == "none":
            return None
        if kind not in WITH_CORES:
            options.pop("num_tuning_cores", None)
        return cost_models.create(kind, *args, **options)


WITH_CORES = ("gbdt", "xgb")  # those that say how many cores they may use


cost_models: Family[CostModel] = Family("cost model", "tilewright.cost_model")
