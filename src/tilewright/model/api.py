"""Compiling and tuning whole models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.database import Database
from tilewright.graph.graph import Graph
from tilewright.model.alternatives import (
    RememberedSchedules,
    competing_tasks,
    programs_to_schedule,
    with_fastest_convolutions,
)
from tilewright.model.compiled import CompiledModel
from tilewright.model.executable import Executable
from tilewright.model.finals import ModelFinal, hold_model_final
from tilewright.model.gpu_api import compile_for_gpu, tunable_tasks
from tilewright.model.kernels import compile_calls
from tilewright.model.schedules import from_database, without_search
from tilewright.model.service import ServiceReport, report_of
from tilewright.model.tasks import (
    ExtractedTask,
    module_of,
    rivals_among,
    simplified,
)
from tilewright.target import Target
from tilewright.tune.api import tune_tir

_ROUNDS = 4  # that each task should have, with the trials of all of them
_SMALLEST_ROUND, _LARGEST_ROUND = 4, 16
_FINAL_SHARE, _LONGEST_FINAL = 0.05, 10.0  # of the time that there is, and seconds


def compile_model(
    graph: Graph,
    target: Target | str = "llvm",
    database: Database | None = None,
    *,
    layout: str | None = None,
    winograd: bool = True,
) -> CompiledModel:
    """A model that runs; kernels have the best schedules of the database, or calculated ones.

    Any database serves. `served_by` says which of its records serves which operator. Convolutions
    are computed by Winograd's tiles where that is faster, with rounding errors that `served_by`
    reports; never without `winograd`. A model for a GPU takes and makes arrays there.
    """
    where = Target(target)
    if not where.is_cpu:
        return compile_for_gpu(simplified(graph, layout, where), where, database)
    simple = simplified(graph, layout)
    schedule = RememberedSchedules(without_search if database is None else from_database(database))
    if database is None:
        schedule.prepare(programs_to_schedule(simple, where, winograd=winograd), where)
    if winograd:
        simple = with_fastest_convolutions(simple, where, database, schedule).graph
    return Executable(simple, compile_calls(simple, where, schedule))


def served_by(executable: CompiledModel) -> ServiceReport:
    """Which record serves which operator of a compiled model: exact, anchor block, or none."""
    return report_of(executable.calls, executable.tiled)


def tune_model(
    graph: Graph,
    target: Target | str = "llvm",
    *,
    layout: str | None = None,
    winograd: bool = True,
    on_final: Callable[[ModelFinal], object] | None = None,
    **options: Any,
) -> Database:
    """Search for fast kernels for a model; options as for `tune_tir`.

    Kernels that compute the same are tuned once, and count as often as they run. `budget_secs` and
    `max_trials_global` are for all of them together: time goes where the model gains most, and
    tuning ends early when it would gain no more. At the end all kernels run in the model against
    calculated ones; `on_final` is told how both did. Called again with the same database it goes
    on where it stopped. With `winograd`, other ways for convolutions are tasks, too.
    """
    where = Target(target)
    simple = simplified(graph, layout, where)
    winograd = winograd and where.is_cpu
    tasks = competing_tasks(simple, where)[0] if winograd else tunable_tasks(simple, where)
    module, weights = module_of(tasks)
    settings = _with_defaults(options, tasks)
    budget = options.get("budget_secs")
    final_secs = _LONGEST_FINAL if budget is None else min(_LONGEST_FINAL, _FINAL_SHARE * budget)
    if budget is not None:
        settings["budget_secs"] = budget - final_secs
    database = tune_tir(module, where, weights=weights, rivals=rivals_among(tasks), **settings)
    if not where.is_cpu:
        return database
    ways = [simple, simple]
    if winograd:
        ways = [with_fastest_convolutions(simple, where, db).graph for db in (database, None)]
    final = hold_model_final(ways[0], where, database, final_secs, ways[1])
    if on_final is not None:
        on_final(final)
    return database


def _with_defaults(options: dict[str, Any], tasks: list[ExtractedTask]) -> dict[str, Any]:
    """Options of `tune_tir` that suit many tasks."""
    chosen: dict[str, Any] = {"task_scheduler": "model", **options}
    trials = options.get("max_trials_global")
    if trials is not None and options.get("num_trials_per_iter") is None:
        fair = trials // (_ROUNDS * max(1, len(tasks)))
        chosen["num_trials_per_iter"] = min(_LARGEST_ROUND, max(_SMALLEST_ROUND, fair))
    return chosen
