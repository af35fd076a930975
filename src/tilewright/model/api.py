"""Compiling and tuning whole models."""

from __future__ import annotations

from typing import Any, cast

from tilewright.database import Database
from tilewright.graph.graph import Graph
from tilewright.graph.passes.pipeline import simplify
from tilewright.model.executable import Executable
from tilewright.model.gpu_api import compile_for_gpu
from tilewright.model.kernels import (
    compile_calls,
    from_database,
    kernels_module,
    without_search,
)
from tilewright.target import Target
from tilewright.tune.api import tune_tir


def compile_model(
    graph: Graph, target: Target | str = "llvm", database: Database | None = None
) -> Executable:
    """A model that runs; kernels have the best schedules of the database, or calculated ones."""
    if not Target(target).is_cpu:
        # It is called alike, with arrays on the GPU.
        return cast("Executable", compile_for_gpu(graph, Target(target), database))
    simple = simplify(graph)
    schedule = without_search if database is None else from_database(database)
    return Executable(simple, compile_calls(simple, Target(target), schedule))


def tune_model(graph: Graph, target: Target | str = "llvm", **options: Any) -> Database:
    """Search for fast kernels for a model; options as for `tune_tir`.

    Kernels that compute the same are tuned once, and count as often as they run.
    """
    return tune_tir(kernels_module(simplify(graph)), target, bound=True, **options)
