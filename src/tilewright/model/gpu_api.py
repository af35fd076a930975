"""Compiling whole models for a GPU."""

from __future__ import annotations

from tilewright.database import Database
from tilewright.graph.graph import Graph
from tilewright.graph.passes.for_gpu import simplify_for_gpu
from tilewright.model.gpu_executable import GpuExecutable
from tilewright.model.gpu_kernels import compile_gpu_calls, written_kernel
from tilewright.model.tasks import ExtractedTask, tasks_of
from tilewright.target import Target


def compile_for_gpu(
    graph: Graph, target: Target, database: Database | None = None
) -> GpuExecutable:
    """A model that runs on a GPU; compiling it needs none."""
    simple = simplify_for_gpu(graph)
    return GpuExecutable(simple, compile_gpu_calls(simple, target, database))


def gpu_tasks(graph: Graph, target: Target) -> list[ExtractedTask]:
    """The different kernels of a model on a GPU that a search can make faster."""
    tasks = tasks_of(simplify_for_gpu(graph), target)
    return [task for task in tasks if written_kernel(task.groups[0]) is None]
