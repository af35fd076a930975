"""Drafts of the small programs, to run post-processors, mutators and strategies on."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tilewright.ir import IRModule
from tilewright.schedule import Schedule, Trace
from tilewright.space.generators import PostOrderApply
from tilewright.target import Target
from tilewright.testing.conformance.small_programs import small_programs
from tilewright.testing.space_generation import SpaceTask

CPU = Target("llvm -num-cores=4")
_KIND = "llvm"


def task_for(module: IRModule, target: Target = CPU, seed: int = 42) -> SpaceTask:
    """A task with the space of plain CPUs."""
    space = PostOrderApply(sch_rules=_KIND, postprocs=_KIND, mutator_probs=_KIND)
    task = SpaceTask(module, target, rand_state=seed, space_generator=space)
    space._initialize_with_tune_context(task)
    return task


def sketches_of(task: SpaceTask) -> list[Trace]:
    """The sketches of a task as traces with open decisions."""
    assert task.mod is not None
    assert task.space_generator is not None
    traces = [sch.trace for sch in task.space_generator.generate_design_space(task.mod)]
    return [Trace(trace.simplified(remove_postproc=True).insts) for trace in traces if trace]


def drafts() -> Iterator[tuple[IRModule, Schedule]]:
    """Small programs, each with a random draft of its first and last sketch, not post-processed."""
    for module, sketch in _some_sketches():
        sch = Schedule(module, seed=1)
        sketch.apply_to_schedule(sch, remove_postproc=True)
        yield module, sch


@functools.cache
def _some_sketches() -> list[tuple[IRModule, Trace]]:
    found: list[tuple[IRModule, Trace]] = []
    for module in small_programs().values():
        sketches = sketches_of(task_for(module))
        found += [(module, sketch) for sketch in (sketches[0], sketches[-1])]
    return found
