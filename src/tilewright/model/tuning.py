"""A model while it is compiled and tuned.

At first it is compiled with calculated schedules and run: that says which kernels matter, without
measuring each of them alone, and gives a model that can be used from then on. In the end it is
compiled with the best that was found, and both run against each other. What is scheduled or
compiled for one of these is there for the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from typing import Any

from tilewright import ir
from tilewright.database import Database
from tilewright.graph.graph import Graph
from tilewright.model.alternatives import (
    DIRECT,
    ChosenGraph,
    CompetingTask,
    RememberedSchedules,
    competing_tasks,
    programs_to_schedule,
    with_fastest_convolutions,
)
from tilewright.model.executable import Executable
from tilewright.model.finals import ModelFinal, hold_model_final, seconds_of_values
from tilewright.model.kernels import CompiledPrograms, compile_calls
from tilewright.model.schedules import (
    ScheduledKernel,
    calculated,
    from_database,
    known_without_search,
    served_secs,
    without_search,
)
from tilewright.model.tasks import ExtractedTask, module_of, rivals_among, simplified
from tilewright.target import Target
from tilewright.tune.api import make_database, tune_tir

_ROUNDS = 4  # that each task should have, with the trials of all of them
_SMALLEST_ROUND, _LARGEST_ROUND = 4, 16
_FINAL_SHARE, _LONGEST_FINAL = 0.03, 10.0  # of the time that there is, and seconds
_LARGEST_RESERVE = 0.3  # of the time, for compiling in the end

OnFinal = Callable[[ModelFinal], object]


class ModelTuning:
    """Tunes and compiles one model for a CPU."""

    def __init__(
        self, graph: Graph, target: Target, *, layout: str | None = None, winograd: bool = True
    ) -> None:
        self._target = target
        self._winograd = winograd
        self._graph = simplified(graph, layout, target)
        self._database: Database | None = None
        self._schedules = RememberedSchedules(self._calculated)
        self._code = CompiledPrograms()
        self._compile_secs = 0.0

    # --- models ---------------------------------------------------------------------------------

    def compile(self, database: Database | None = None) -> Executable:
        """A model that runs; kernels have the best schedules of a database, or calculated ones."""
        start = time.monotonic()
        schedule = self._schedules
        self._prepare(database)
        if database is not None:
            schedule = RememberedSchedules(from_database(database, self._schedules))
        graph = self._chosen(database).graph
        calls = compile_calls(graph, self._target, schedule, self._code)
        self._compile_secs = time.monotonic() - start
        return Executable(graph, calls)

    @cached_property
    def calculated(self) -> Executable:
        """The model that calculation alone gives."""
        return self.compile()

    def _prepare(self, database: Database | None) -> None:
        """Calculate schedules that will be needed and are not known, on all cores."""
        target, self._database = self._target, database or self._database
        wanted = programs_to_schedule(self._graph, target, winograd=self._winograd)
        if database is not None:
            wanted = [f for f in wanted if served_secs(database, f, target) is None]
        elif self._database is not None:
            wanted = [f for f in wanted if not known_without_search(f, target, self._database)]
        self._schedules.prepare(wanted, target)

    def _calculated(self, func: ir.PrimFunc, target: Target) -> ScheduledKernel:
        if self._database is None:
            return without_search(func, target)
        return calculated(func, target, self._database)

    def _chosen(self, database: Database | None) -> ChosenGraph:
        if not self._winograd:
            return ChosenGraph(self._graph)
        return with_fastest_convolutions(self._graph, self._target, database, self._schedules)

    # --- tuning ---------------------------------------------------------------------------------

    def tune(self, on_final: OnFinal | None = None, **options: Any) -> Database:
        """Search for fast kernels; options as for `tune_tir`. `on_final` is told what they gain."""
        start = time.monotonic()
        given, work_dir = options.pop("database", "sqlite"), options.get("work_dir")
        store = make_database(given, work_dir, options.get("module_equality", "structural"))
        with ExitStack() as closing:
            if store is not given:
                closing.push(lambda kind, _, __: store.close() if kind is not None else None)
            self._database = store
            found = self._search(store, options, start)
            final = self.compare(found, final_secs(options))
        if on_final is not None:
            on_final(final)
        return found

    def compare(self, database: Database, seconds: float) -> ModelFinal:
        """Run the kernels of a database in the model against calculated ones; losers are noted."""
        tuned = self.compile(database)
        return hold_model_final(self.calculated, tuned, database, self._target, seconds)

    @cached_property
    def _competing(self) -> list[CompetingTask]:
        return competing_tasks(self._graph, self._target, winograd=self._winograd)

    @property
    def tasks(self) -> list[ExtractedTask]:
        """The kernels of the model; other ways to compute the same are left out."""
        return [each.task for each in self._competing if each.size == DIRECT]

    def _search(self, database: Database, options: dict[str, Any], start: float) -> Database:
        tasks = [each.task for each in self._competing]
        expected = self._expected_secs()
        module, weights = module_of(tasks)
        settings = with_defaults(options, len(tasks))
        budget = options.get("budget_secs")
        if budget is not None:
            used = time.monotonic() - start
            settings["budget_secs"] = self._left(budget, used, final_secs(options))
        return tune_tir(
            module,
            self._target,
            weights=weights,
            rivals=rivals_among(tasks),
            expected_secs=expected,
            database=database,
            **settings,
        )

    def _expected_secs(self) -> dict[str, float]:
        """What each task takes in the model as it is calculated, by name."""
        seconds, tiles = seconds_of_values(self.calculated), self._chosen(None).tiles
        known = {
            each.task.task_name: each.expected_secs(seconds, tiles) for each in self._competing
        }
        return {name: secs for name, secs in known.items() if secs is not None}

    def _left(self, budget: float, used: float, final_secs: float) -> float:
        """Seconds for the search: the rest but for what compiling and the final will take."""
        reserve = min(self._compile_secs + final_secs, _LARGEST_RESERVE * budget)
        return max(budget - used - reserve, 0.01 * budget)


def final_secs(options: dict[str, Any]) -> float:
    """Seconds for the final."""
    budget = options.get("budget_secs")
    return _LONGEST_FINAL if budget is None else min(_LONGEST_FINAL, _FINAL_SHARE * budget)


def with_defaults(options: dict[str, Any], tasks: int) -> dict[str, Any]:
    """Options of `tune_tir` that suit many tasks."""
    chosen: dict[str, Any] = {"task_scheduler": "model", **options}
    trials = options.get("max_trials_global")
    if trials is not None and options.get("num_trials_per_iter") is None:
        fair = trials // (_ROUNDS * max(1, tasks))
        chosen["num_trials_per_iter"] = min(_LARGEST_ROUND, max(_SMALLEST_ROUND, fair))
    return chosen
