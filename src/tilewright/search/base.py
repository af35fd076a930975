"""`SearchStrategy`: ask it for candidates, tell it what was measured. No clock, no I/O.

Measurements of earlier rounds and runs are handed to it as `MeasuredRecords`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tilewright.cost_model.base import CostModel
from tilewright.ir import IRModule
from tilewright.records import Candidates, MeasureCandidate, RunnerResults, TuningRecord
from tilewright.schedule import Schedule
from tilewright.space.base import Member
from tilewright.support.plugins import Family
from tilewright.target import Target

Chosen = Callable[[MeasureCandidate], object]  # told about a candidate as soon as it is chosen


class MeasuredRecords(Protocol):
    """The records of a task; whoever runs the search keeps them."""

    @property
    def source(self) -> object: ...

    @property
    def earlier(self) -> Sequence[TuningRecord]: ...

    def best(self, count: int) -> Sequence[TuningRecord]: ...


class DatabaseLike(Protocol):
    """A database hands over the records of a task when its search begins."""

    def task_records(self, mod: IRModule, target: Target | None) -> MeasuredRecords: ...


class SearchStrategy(Member, ABC):
    """Proposes candidates; learns from what they measured."""

    @abstractmethod
    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: DatabaseLike | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Begin. Twice without `post_tuning` in between is an error."""

    @abstractmethod
    def post_tuning(self) -> None:
        """End, whatever state the search is in."""

    @abstractmethod
    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next candidates; None: nothing more to propose."""

    def choose_candidates(self, chosen: Chosen) -> list[MeasureCandidate] | None:
        """The next candidates; those who choose one after the other tell of each at once."""
        return self.generate_measure_candidates()

    @abstractmethod
    def notify_runner_results(self, measure_candidates: Candidates, results: RunnerResults) -> None:
        """What the candidates of the last call measured."""

    def notify_known(self, candidates: Candidates) -> None:
        """Candidates that somebody else measured or measures: they need not be proposed.

        Those that were proposed just now will get no results.
        """

    def state_dict(self) -> dict[str, object]:
        """Everything a search needs to go on in another process, as plain JSON values.

        Taken between calls. Empty: the search cannot go on, it starts anew.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on, after `pre_tuning`, from what `state_dict` returned.

        Candidates that were proposed but not measured by then are proposed again.
        """

    @staticmethod
    def create(kind: str = "evolutionary", *args: object, **options: object) -> SearchStrategy:
        """A strategy by name."""
        return search_strategies.create(kind, *args, **options)


search_strategies: Family[SearchStrategy] = Family("search strategy", "tilewright.search_strategy")
