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


measure_callbacks: Family[Any] = Family("measure callback", "tilewright.measure_callback")
