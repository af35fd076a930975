"""`TuneContext`: one task, with the space it is searched in and the strategy that searches."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence

from typing_extensions import Self

from tilewright.cost_model.base import CostModel, cost_models
from tilewright.database import MemoryDatabase
from tilewright.errors import TuneError
from tilewright.ir import IRModule, PrimFunc
from tilewright.records import (
    Candidates,
    MeasureCandidate,
    RunnerResults,
    normalize_mod as normalize_mod,
    task_mod,
)
from tilewright.schedule import Schedule
from tilewright.schedule.trace.random import RandomEngine
from tilewright.search.base import Chosen, DatabaseLike, SearchStrategy, search_strategies
from tilewright.space.base import SpaceGenerator
from tilewright.space.generators import create_space_generator
from tilewright.support.member_failures import MemberFailures
from tilewright.target import Target, host_topology


def thread_count(num_threads: int | str) -> int:
    """How many threads a task may use: a number, "physical" or "logical" cores."""
    if isinstance(num_threads, bool) or (isinstance(num_threads, int) and num_threads < 1):
        raise TuneError(f"num_threads must be at least 1, got {num_threads}")
    match num_threads:
        case int():
            return num_threads
        case "physical":
            return host_topology().physical_cores
        case "logical":
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    raise TuneError(f'num_threads is a number, "physical" or "logical", got {num_threads!r}')


class TuneContext:
    """A task: program, target, space generator, search strategy, and the seed of all of them."""

    def __init__(
        self,
        mod: PrimFunc | IRModule | None = None,
        *,
        target: Target | str | Mapping[str, object] | None = None,
        space_generator: SpaceGenerator | str | Callable[..., object] | None = None,
        search_strategy: SearchStrategy | str | None = None,
        task_name: str = "main",
        rand_state: int = -1,
        num_threads: int | str = "physical",
        logger: logging.Logger | None = None,
        failures: MemberFailures | None = None,
    ) -> None:
        self.mod = task_mod(mod) if mod is not None else None
        self.target = Target(target) if isinstance(target, (str, Mapping)) else target
        if space_generator is not None and not isinstance(space_generator, SpaceGenerator):
            space_generator = create_space_generator(space_generator)
        if isinstance(search_strategy, str):
            search_strategy = search_strategies.create(search_strategy)
        self.space_generator, self.search_strategy = space_generator, search_strategy
        self.task_name = task_name
        self.rand_state = RandomEngine(rand_state).state
        self.num_threads = thread_count(num_threads)
        self.logger = logger or logging.getLogger("tilewright.tune")
        self.failures = failures or MemberFailures()
        self.initialize()

    def initialize(self) -> None:
        """Tell the space generator and the strategy about the task."""
        for member in (self.space_generator, self.search_strategy):
            if member is not None:
                member._initialize_with_tune_context(self)

    def report_to(self, failures: MemberFailures) -> None:
        """Let members report exceptions of the user's own code there, and start anew for that."""
        if self.failures is not failures:
            self.failures = failures
            self.initialize()

    def generate_design_space(self) -> list[Schedule]:
        """The sketches of the task."""
        if self.mod is None or self.space_generator is None:
            missing = "a program (mod)" if self.mod is None else "a space generator"
            raise TuneError(f"task {self.task_name!r} has no {missing.removeprefix('a ')}")
        return self.space_generator.generate_design_space(self.mod)

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int = 64,
        design_spaces: Sequence[Schedule] | None = None,
        database: DatabaseLike | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Begin a search; what is not given is made: sketches, a database in memory, a model."""
        spaces = self.generate_design_space() if design_spaces is None else design_spaces
        self._strategy().pre_tuning(
            max_trials,
            num_trials_per_iter,
            spaces,
            MemoryDatabase() if database is None else database,
            cost_models.create("random") if cost_model is None else cost_model,
        )

    def post_tuning(self) -> None:
        """End a search."""
        self._strategy().post_tuning()

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next candidates of the strategy."""
        return self._strategy().generate_measure_candidates()

    def choose_candidates(self, chosen: Chosen) -> list[MeasureCandidate] | None:
        """The same; a strategy that chooses one after the other tells of each at once."""
        return self._strategy().choose_candidates(chosen)

    def notify_runner_results(self, measure_candidates: Candidates, results: RunnerResults) -> None:
        """Tell the strategy what its candidates measured."""
        self._strategy().notify_runner_results(measure_candidates, results)

    def notify_known(self, candidates: Candidates) -> None:
        """Tell the strategy what was measured without it."""
        self._strategy().notify_known(candidates)

    def clone(self) -> Self:
        """The same task with members and a seed of its own; this one stays as it is."""
        space, strategy = self.space_generator, self.search_strategy
        return type(self)(
            self.mod,
            target=self.target,
            space_generator=None if space is None else space.clone(),
            search_strategy=None if strategy is None else strategy.clone(),
            task_name=self.task_name,
            rand_state=RandomEngine(self.rand_state).fork_seed(),
            num_threads=self.num_threads,
            logger=self.logger,
        )

    def _strategy(self) -> SearchStrategy:
        if self.search_strategy is None:
            raise TuneError(f"task {self.task_name!r} has no search strategy")
        return self.search_strategy
