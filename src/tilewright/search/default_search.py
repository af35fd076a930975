"""`DefaultSearch`: on arrays where all sketches of a task have an algebra, by replay elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import Self

from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.cost_model.base import CostModel
from tilewright.cost_model.gbdt import GBDTModel
from tilewright.records import Candidates, MeasureCandidate, RunnerResults
from tilewright.schedule import Schedule
from tilewright.search.array_search import ArraySearch
from tilewright.search.base import (
    Chosen,
    DatabaseLike,
    MeasuredRecords,
    SearchStrategy,
    search_strategies,
)
from tilewright.search.evolutionary_search import EvolutionarySearch
from tilewright.search.replayer import SearchStatistics
from tilewright.search.task_search import TaskSearch
from tilewright.space.base import TaskContext

_FIRST_BATCH = 8  # candidates, so that small budgets learn, too


@search_strategies.register("default")
class DefaultSearch(SearchStrategy):
    """Chooses one of two strategies when a search begins.

    `ArraySearch` has trees of its own, on its own columns: models of other kinds, or without a
    prior, are asked by `EvolutionarySearch`.
    """

    def __init__(
        self, arrays: ArraySearch | None = None, evolutionary: EvolutionarySearch | None = None
    ) -> None:
        self._evolutionary = evolutionary or EvolutionarySearch.frugal()
        self._arrays = arrays or ArraySearch(all_sketches=True, first_batch=_FIRST_BATCH)
        self._chosen: TaskSearch = self._evolutionary

    def settings(self) -> dict[str, Any]:
        """What the search was made with."""
        return {**self._evolutionary.settings(), **self._arrays.settings()}

    def clone(self) -> Self:
        return type(self)(self._arrays.clone(), self._evolutionary.clone())

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        for each in (self._evolutionary, self._arrays):
            each._initialize_with_tune_context(context)

    def take_records(self, records: MeasuredRecords) -> None:
        """Use records that were read already, instead of those of the next `pre_tuning`."""
        for each in (self._evolutionary, self._arrays):
            each.take_records(records)

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: DatabaseLike | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        given = (max_trials, num_trials_per_iter, design_spaces, database, cost_model)
        if isinstance(cost_model, GBDTModel) and cost_model.prior is not None:
            try:
                self._arrays.pre_tuning(*given)
            except NotInterpreted as why:
                logger = self._arrays.context.logger
                logger.info("the task is searched by replay: %s", why)
            else:
                self._chosen = self._arrays
                return
        self._evolutionary.pre_tuning(*given)
        self._chosen = self._evolutionary

    def post_tuning(self) -> None:
        self._chosen.post_tuning()

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        return self._chosen.generate_measure_candidates()

    def choose_candidates(self, chosen: Chosen) -> list[MeasureCandidate] | None:
        return self._chosen.choose_candidates(chosen)

    def notify_runner_results(self, measure_candidates: Candidates, results: RunnerResults) -> None:
        self._chosen.notify_runner_results(measure_candidates, results)

    def notify_known(self, candidates: Candidates) -> None:
        self._chosen.notify_known(candidates)

    def state_dict(self) -> dict[str, object]:
        return self._chosen.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._chosen.load_state_dict(state)

    @property
    def statistics(self) -> SearchStatistics:
        """The counts of the strategy that was chosen."""
        return self._chosen.statistics

    @property
    def predictions(self) -> list[float | None]:
        """What is predicted for the candidates proposed last, in their order."""
        return self._chosen.predictions
