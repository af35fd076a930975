"""Compiling whole models for a GPU."""

from __future__ import annotations

from tilewright.database import Database
from tilewright.graph.graph import Graph
from tilewright.model.gpu_executable import GpuExecutable
from tilewright.model.gpu_kernels import compile_gpu_calls, written_kernel
from tilewright.model.tasks import ExtractedTask, tasks_of
from tilewright.target import Target


def compile_for_gpu(graph: Graph, target: Target, database: Database | None) -> GpuExecutable:
    """A model that runs on a GPU, of a graph that is simplified; compiling it needs none."""
    return GpuExecutable(graph, compile_gpu_calls(graph, target, database))


def tunable_tasks(graph: Graph, target: Target) -> list[ExtractedTask]:
    """The different kernels of a simplified graph that a search can make faster."""
    tasks = tasks_of(graph, target)
    if target.is_cpu:
        return tasks
    return [task for task in tasks if written_kernel(task.groups[0]) is None]
