"""The final of a tuned model: its kernels against those that calculation alone gives, in place.

A kernel alone in a loop finds its data in the caches; in a model it finds what others left there.
So at the end both run inside of the model, in turns. Where the calculated one is faster, models
have that one from then on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from tilewright.database import Database
from tilewright.graph.graph import Array, Graph, GraphValue
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.model.executable import Executable
from tilewright.model.kernels import KernelCall, ModelKernel, compile_calls, compiled
from tilewright.model.schedules import calculated, from_database, note_beaten
from tilewright.model.tasks import task_name
from tilewright.records import ZERO_SEARCH
from tilewright.schedule.analysis import flop_of
from tilewright.target import Target

_LEAST_RUNS, _MOST_RUNS = 3, 30
_SLOWER = 1.02  # a difference that is more than noise
_SEED = 1


@dataclass(frozen=True)
class StepComparison:
    """One kernel of a model in place: calculated, and as it is now."""

    name: str
    sources: tuple[str, ...]
    flop: float
    bytes: int  # read and written, weights included
    calculated_secs: float
    secs: float


@dataclass(frozen=True)
class ModelFinal:
    """All kernels in the order in which they run, and how long the model takes."""

    steps: Sequence[StepComparison]
    beaten: Sequence[str] = ()  # kernels whose record lost against calculation

    @property
    def calculated_secs(self) -> float:
        """The model before it was tuned."""
        return sum(step.calculated_secs for step in self.steps)

    @property
    def secs(self) -> float:
        """The model as it is now."""
        return sum(step.secs for step in self.steps)


def random_inputs(graph: Graph, seed: int = _SEED) -> list[Array]:
    """Inputs of the right types; integers are small, so that they may be indices."""
    generator = np.random.default_rng(seed)
    return [_random(generator, value) for value in graph.inputs]


def _random(generator: np.random.Generator, value: GraphValue) -> Array:
    dtype, shape = to_numpy(value.type.dtype), value.type.extents
    if dtype.kind in "iu":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    return generator.standard_normal(shape).astype(dtype)


def hold_model_final(
    graph: Graph, target: Target, database: Database, seconds: float = 5.0
) -> ModelFinal:
    """Compare in place; records that lose are noted in the database. The graph is simplified."""
    tuned = compile_calls(graph, target, from_database(database))
    plain = _calculated(tuned, target, database)
    before, after = _step_secs(graph, plain, tuned, seconds)
    beaten = _beaten_kernels(tuned, before, after)
    for kernel in beaten:
        assert kernel.origin.record is not None
        note_beaten(database, kernel.origin.record, target)
    steps = [
        StepComparison(
            task_name(call.group),
            tuple(node.source for node in call.group.nodes if node.source),
            flop_of(call.kernel.func),
            sum(value.type.bytes for value in call.values),
            old,
            old if call.kernel in beaten else new,
        )
        for call, old, new in zip(tuned, before, after, strict=True)
    ]
    names = dict.fromkeys(task_name(call.group) for call in tuned if call.kernel in beaten)
    return ModelFinal(steps, tuple(names))


def _calculated(
    tuned: Sequence[KernelCall], target: Target, database: Database
) -> list[KernelCall]:
    """The same calls with calculated kernels; those that are calculated already stay."""
    made: dict[ModelKernel, ModelKernel] = {}
    for call in tuned:
        kernel = call.kernel
        if kernel not in made:
            made[kernel] = kernel
            if _was_searched(kernel):
                found = calculated(kernel.func, target, database)
                made[kernel] = ModelKernel(kernel.func, compiled(found.mod, target))
    return [replace(call, kernel=made[call.kernel]) for call in tuned]


def _was_searched(kernel: ModelKernel) -> bool:
    record = kernel.origin.record
    return record is not None and record.baseline != ZERO_SEARCH


def _step_secs(
    graph: Graph, plain: Sequence[KernelCall], tuned: Sequence[KernelCall], seconds: float
) -> tuple[list[float], list[float]]:
    """Median seconds of each call, of both models run in turns."""
    inputs, models = random_inputs(graph), [Executable(graph, plain), Executable(graph, tuned)]
    for model in models:
        model(*inputs)
    rows: list[list[list[float]]] = [[], []]
    end = time.monotonic() + seconds
    while len(rows[0]) < _LEAST_RUNS or (time.monotonic() < end and len(rows[0]) < _MOST_RUNS):
        for own, model in zip(rows, models, strict=True):
            own.append(_kernel_secs(model, inputs))
    before, after = ([median(times) for times in zip(*own, strict=True)] for own in rows)
    return before, after


def _kernel_secs(model: Executable, inputs: Sequence[Array]) -> list[float]:
    """Seconds of the kernels in one run; what others compute is left out."""
    steps = zip(model.calls, model.profile(*inputs, repeats=1), strict=True)
    return [step.seconds for call, step in steps if isinstance(call, KernelCall)]


def _beaten_kernels(
    tuned: Sequence[KernelCall], before: Sequence[float], after: Sequence[float]
) -> set[ModelKernel]:
    """Those that take longer than the calculated ones, summed over all of their calls."""
    sums: dict[ModelKernel, list[float]] = {}
    for call, old, new in zip(tuned, before, after, strict=True):
        if _was_searched(call.kernel):
            total = sums.setdefault(call.kernel, [0.0, 0.0])
            total[0] += old
            total[1] += new
    return {kernel for kernel, (old, new) in sums.items() if new > _SLOWER * old}
