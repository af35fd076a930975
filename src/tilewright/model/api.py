"""Compiling and tuning whole models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.database import Database
from tilewright.graph.graph import Graph
from tilewright.model.compiled import CompiledModel
from tilewright.model.finals import ModelFinal
from tilewright.model.gpu_api import GpuTuning
from tilewright.model.service import ServiceReport, report_of
from tilewright.model.tuning import ModelTuning
from tilewright.target import Target


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
    tuning = tuning_of(graph, target, layout=layout, winograd=winograd)
    return tuning.calculated if database is None else tuning.compile(database)


def tuning_of(
    graph: Graph,
    target: Target | str = "llvm",
    *,
    layout: str | None = None,
    winograd: bool = True,
) -> ModelTuning | GpuTuning:
    """A model that can be compiled and tuned, for a CPU or a GPU."""
    where = Target(target)
    if where.is_cpu:
        return ModelTuning(graph, where, layout=layout, winograd=winograd)
    return GpuTuning(graph, where, layout=layout)


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
    `max_trials_global` are for all of them together, compiling included: time goes where the model
    gains most, and tuning ends early when it would gain no more. At the end all kernels run in the
    model against calculated ones; `on_final` is told how both did. Called again with the same
    database it goes on where it stopped. With `winograd`, other ways for convolutions are tasks,
    too.
    """
    tuning = tuning_of(graph, target, layout=layout, winograd=winograd)
    return tuning.tune(on_final, **options)
