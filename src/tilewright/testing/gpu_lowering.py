"""Helpers for tests of GPU passes: lower programs and candidates, and run what comes out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright import ir
from tilewright.codegen.cuda.pipeline import passes_of
from tilewright.errors import ScheduleError
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.lowering.pipeline import run_pipeline
from tilewright.schedule import Schedule, Trace
from tilewright.space.base import ScheduleRule
from tilewright.space.defaults import create_postprocs
from tilewright.target import Target
from tilewright.testing.simt import run
from tilewright.testing.space_generation import SpaceTask, generate_design_space

Arrays = list[npt.NDArray[Any]]


def lower_for_gpu(program: ir.PrimFunc | ir.IRModule, target: str = "cuda") -> ir.IRModule:
    """The program as a code generator for CUDA takes it."""
    return run_pipeline(program, Target(target), lambda context, _: passes_of(context))


def count_barriers(program: ir.PrimFunc | ir.IRModule) -> int:
    """How many barriers the text of a program has."""
    return str(program).count("tvm_storage_sync")


def random_arrays(func: ir.PrimFunc, seed: int = 0, *, are_whole: bool = False) -> Arrays:
    """Arrays for all buffers of a function; sums of products of whole numbers are exact."""
    rng = np.random.default_rng(seed)
    made = []
    for buffer in func.buffer_map.values():
        shape = [int(extent.value) for extent in buffer.shape if isinstance(extent, ir.IntImm)]
        whole = are_whole or buffer.dtype.is_integral
        values = rng.integers(-4, 5, shape) if whole else rng.normal(size=shape)
        made.append(values.astype(to_numpy(buffer.dtype)))
    return made


def result_on_gpu(func: ir.PrimFunc, lowered: ir.IRModule, seed: int = 0) -> Arrays:
    """What a lowered program leaves in its arrays, threads that race being an error."""
    arrays = random_arrays(func, seed)
    run(lowered, arrays)
    return arrays


def candidates(
    module: ir.IRModule,
    target: Target,
    kind: str,
    seeds: Sequence[int],
    count: int,
    sch_rules: Sequence[ScheduleRule] | None = None,
) -> Iterator[Schedule]:
    """For each sketch `count` random candidates that pass all post-processors, if there are."""
    task = SpaceTask(module, target)
    for sketch in generate_design_space(kind, module, target, sch_rules=sch_rules, seed=1):
        yield from itertools.islice(drafts_of(sketch, task, kind, seeds), count)


def drafts_of(
    sketch: Schedule, task: SpaceTask, kind: str, seeds: Sequence[int]
) -> Iterator[Schedule]:
    """Random candidates of a sketch that pass all post-processors, made when they are asked for."""
    assert sketch.trace is not None
    for seed in seeds:
        draft = _draft(sketch.trace, task, kind, seed)
        if draft is not None:
            yield draft


def _draft(trace: Trace, task: SpaceTask, kind: str, seed: int) -> Schedule | None:
    assert task.mod is not None
    schedule = Schedule(task.mod, seed=seed)
    try:
        Trace(trace.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
        accepted = _postprocessed(schedule, task, kind)
    except ScheduleError:
        return None
    return schedule if accepted else None


def _postprocessed(schedule: Schedule, task: SpaceTask, kind: str) -> bool:
    schedule.enter_postproc()
    for step in create_postprocs(kind):
        step._initialize_with_tune_context(task)
        if not step.apply(schedule):
            return False
    return True
