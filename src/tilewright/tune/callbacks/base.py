"""What a measure callback is: it sees every round after it was measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from tilewright.records import BuilderResult, MeasureCandidate, RunnerResult
from tilewright.support.plugins import Family


class MeasureCallback(ABC):
    """Called with the candidates of a round and what became of them."""

    @abstractmethod
    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Do something with a round."""

    @staticmethod
    def create(kind: str = "default") -> list[MeasureCallback]:
        """The callbacks of that name: the default ones, or a single one."""
        if kind == "default":
            return [measure_callbacks.create(name) for name in DEFAULT]
        return [measure_callbacks.create(kind)]


# What tuning does with each round unless told otherwise, in this order.
DEFAULT = ("add-to-database", "remove-build-artifact", "update-cost-model")
measure_callbacks: Family[Any] = Family("measure callback", "tilewright.measure_callback")
