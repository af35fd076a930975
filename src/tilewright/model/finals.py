"""The final of a tuned model: its kernels against those that calculation alone gives, in place.

A kernel alone in a loop finds its data in the caches; in a model it finds what others left there.
So at the end both run inside of the model, in turns. Where the calculated one is faster, models
have that one from then on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from tilewright import ir
from tilewright.database import Database
from tilewright.graph.graph import Array, Graph, GraphValue
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.model.compiled import CompiledModel, on_device_of
from tilewright.model.kernels import KernelCall, ModelKernel, nameless
from tilewright.model.schedules import note_beaten, note_lost
from tilewright.model.tasks import task_name
from tilewright.records import ZERO_SEARCH
from tilewright.schedule.analysis import flop_of
from tilewright.target import Target

_LEAST_RUNS, _MOST_RUNS = 3, 30
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
    before: CompiledModel,
    after: CompiledModel,
    database: Database,
    target: Target,
    seconds: float = 5.0,
) -> ModelFinal:
    """Compare a model with calculated kernels and one with those of a database, in place.

    Records that lose are noted in the database. The first model may compute some values in other
    ways than the second.
    """
    old, new = _step_secs(before, after, seconds)
    funcs = {_made_by(call): call.kernel.func for call in kernel_calls(before)}
    tuned = kernel_calls(after)
    changed = [call for call in tuned if _is_changed(call, funcs)]
    beaten = _beaten_kernels(changed, old, new)
    for call in changed:
        if call.kernel in beaten:
            _note(call, funcs[_made_by(call)], database, target)
    steps = [_step(call, old, new, call not in changed or call.kernel in beaten) for call in tuned]
    names = dict.fromkeys(task_name(call.group) for call in tuned if call.kernel in beaten)
    return ModelFinal(steps, tuple(names))


def kernel_calls(model: CompiledModel) -> list[KernelCall]:
    """The steps of a model that are kernels of ours."""
    return [call for call in model.calls if isinstance(call, KernelCall)]


def seconds_of_values(model: CompiledModel, runs: int = _LEAST_RUNS) -> dict[str, float]:
    """For each value the seconds of its kernel inside the model, the least of some runs."""
    inputs = on_device_of(model, random_inputs(model.graph))
    model(*inputs)
    found = [_kernel_secs(model, inputs) for _ in range(runs)]
    return {name: min(run[made] for run in found) for made in found[0] for name in made}


Seconds = Mapping[tuple[str, ...], float]  # by the values that a kernel makes


def _made_by(call: KernelCall) -> tuple[str, ...]:
    return tuple(value.name for value in call.group.outputs)


def _note(
    call: KernelCall, calculated_func: ir.PrimFunc, database: Database, target: Target
) -> None:
    """Keep a record from being used again, or the whole way of computing a value."""
    record = call.kernel.origin.record
    assert record is not None
    if _is_same(calculated_func, call.kernel.func):
        note_beaten(database, record, target)
    else:
        note_lost(database, record, target)


def _is_changed(call: KernelCall, calculated_funcs: Mapping[tuple[str, ...], ir.PrimFunc]) -> bool:
    """True for a kernel with another schedule than the calculated one, or another program."""
    func, record = calculated_funcs.get(_made_by(call)), call.kernel.origin.record
    if func is None or record is None:
        return False
    return record.baseline != ZERO_SEARCH or not _is_same(func, call.kernel.func)


def _is_same(a: ir.PrimFunc, b: ir.PrimFunc) -> bool:
    return ir.structural_equal(nameless(a), nameless(b))


def _step(call: KernelCall, before: Seconds, after: Seconds, stays: bool) -> StepComparison:
    """Both figures are the same for a kernel that stays as it was calculated."""
    new = after[_made_by(call)]
    old = before.get(_made_by(call), new)  # the other model may have no such value
    return StepComparison(
        task_name(call.group),
        tuple(node.source for node in call.group.nodes if node.source),
        flop_of(call.kernel.func),
        sum(value.type.bytes for value in call.values),
        old,
        old if stays else new,
    )


def _step_secs(
    plain: CompiledModel, tuned: CompiledModel, seconds: float
) -> tuple[Seconds, Seconds]:
    """Median seconds of each kernel, of both models run in turns."""
    inputs, models = on_device_of(tuned, random_inputs(tuned.graph)), (plain, tuned)
    for model in models:
        model(*inputs)
    rows: tuple[list[Seconds], list[Seconds]] = ([], [])
    end = time.monotonic() + seconds
    while len(rows[0]) < _LEAST_RUNS or (time.monotonic() < end and len(rows[0]) < _MOST_RUNS):
        for own, model in zip(rows, models, strict=True):
            own.append(_kernel_secs(model, inputs))
    before, after = ({key: median(run[key] for run in own) for key in own[0]} for own in rows)
    return before, after


def _kernel_secs(model: CompiledModel, inputs: Sequence[Any]) -> Seconds:
    """Seconds of the kernels in one run; what others compute is left out."""
    steps = zip(model.calls, model.profile(*inputs, repeats=1), strict=True)
    return {_made_by(call): step.seconds for call, step in steps if isinstance(call, KernelCall)}


def _beaten_kernels(
    changed: Sequence[KernelCall], before: Seconds, after: Seconds
) -> set[ModelKernel]:
    """Those that take longer than the calculated ones, summed over all of their calls."""
    sums: dict[ModelKernel, list[float]] = {}
    for call in changed:
        total = sums.setdefault(call.kernel, [0.0, 0.0])
        total[0] += before[_made_by(call)]
        total[1] += after[_made_by(call)]
    return {kernel for kernel, (old, new) in sums.items() if new > old}
