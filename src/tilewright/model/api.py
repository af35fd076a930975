"""Compiling and tuning whole models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tilewright.database import Database
from tilewright.graph.graph import Graph
from tilewright.model.executable import Executable
from tilewright.model.finals import ModelFinal
from tilewright.model.gpu_api import compile_for_gpu, gpu_tasks
from tilewright.model.service import ServiceReport, report_of
from tilewright.model.tasks import module_of
from tilewright.model.tuning import ModelTuning, with_defaults
from tilewright.target import Target
from tilewright.tune.api import tune_tir


def compile_model(
    graph: Graph,
    target: Target | str = "llvm",
    database: Database | None = None,
    *,
    layout: str | None = None,
    winograd: bool = True,
) -> Executable:
    """A model that runs; kernels have the best schedules of the database, or calculated ones.

    Any database serves. `served_by` says which of its records serves which operator. Convolutions
    are computed by Winograd's tiles where that is faster, with rounding errors that `served_by`
    reports; never without `winograd`.
    """
    where = Target(target)
    if not where.is_cpu:
        # It is called alike, with arrays on the GPU.
        return cast("Executable", compile_for_gpu(graph, where, database))
    tuning = ModelTuning(graph, where, layout=layout, winograd=winograd)
    return tuning.calculated if database is None else tuning.compile(database)


def served_by(executable: Executable) -> ServiceReport:
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
    `max_trials_global` are for all of them together, compiling included: time goes where the model
    gains most, and tuning ends early when it would gain no more. At the end all kernels run in the
    model against calculated ones; `on_final` is told how both did. Called again with the same
    database it goes on where it stopped. With `winograd`, other ways for convolutions are tasks,
    too.
    """
    where = Target(target)
    if where.is_cpu:
        tuning = ModelTuning(graph, where, layout=layout, winograd=winograd)
        return tuning.tune(on_final, **options)
    tasks = gpu_tasks(graph, where)
    module, weights = module_of(tasks)
    return tune_tir(module, where, weights=weights, **with_defaults(options, len(tasks)))
