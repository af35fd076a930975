"""A model for a GPU while it is compiled and tuned; compiling it needs none."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tilewright.database import Database
from tilewright.graph.graph import Graph
from tilewright.model.finals import hold_model_final
from tilewright.model.gpu_executable import GpuExecutable
from tilewright.model.gpu_kernels import compile_gpu_calls, written_kernel
from tilewright.model.tasks import ExtractedTask, module_of, simplified, tasks_of
from tilewright.model.tuning import OnFinal, final_secs, with_defaults
from tilewright.target import Target
from tilewright.tune.api import tune_tir


class GpuTuning:
    """Tunes and compiles one model for a GPU."""

    def __init__(self, graph: Graph, target: Target, *, layout: str | None = None) -> None:
        self._target = target
        self._graph = simplified(graph, layout, target)

    def compile(self, database: Database | None = None) -> GpuExecutable:
        """A model that runs; kernels have the best schedules of a database, or calculated ones."""
        calls = compile_gpu_calls(self._graph, self._target, database)
        return GpuExecutable(self._graph, calls)

    @cached_property
    def calculated(self) -> GpuExecutable:
        """The model that calculation alone gives."""
        return self.compile()

    @cached_property
    def tasks(self) -> list[ExtractedTask]:
        """The different kernels that a search can make faster: not those that are written out."""
        tasks = tasks_of(self._graph, self._target)
        return [task for task in tasks if written_kernel(task.groups[0]) is None]

    def tune(self, on_final: OnFinal | None = None, **options: Any) -> Database:
        """Search for fast kernels; options as for `tune_tir`. `on_final` is told what they gain."""
        module, weights = module_of(self.tasks)
        settings, seconds = with_defaults(options, len(self.tasks)), final_secs(options)
        if options.get("budget_secs") is not None:
            settings["budget_secs"] -= seconds
        found = tune_tir(module, self._target, weights=weights, **settings)
        final = hold_model_final(self.calculated, self.compile(found), found, self._target, seconds)
        if on_final is not None:
            on_final(final)
        return found
