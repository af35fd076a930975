"""Versions of one program that are run in turn, so that all of them see the same machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from tilewright.driver import build
from tilewright.errors import TuneError
from tilewright.ir import IRModule
from tilewright.measure.argument_cache import accesses_of, entry_of, packed
from tilewright.measure.arguments import ArgumentSet, Array
from tilewright.measure.checking import difference
from tilewright.measure.row_offsets import specs_of
from tilewright.measure.tolerance import rounding_of
from tilewright.runtime import ndarray
from tilewright.runtime.devices import CPU
from tilewright.target import Target

SEED = 1
_NUMBERS, _SMALL_FLOATS = "biufc", ("bfloat16", "float8")
ROUNDS = 7
ROW_SECS = 0.02
SLOW_SECS = 0.3  # a run that takes longer is not repeated
NOISY = 1.5  # a spread that says that something else is running
SETTLE_SECS = 0.05  # threads of other libraries spin for a while when they have nothing to do


@dataclass
class TimedVersion:
    """A version, how to run it `n` times in a row, and what it computes."""

    name: str
    run: Callable[[int], float]  # the seconds of all runs together
    results: Callable[[], Sequence[Array]]
    settle: bool = False
    rows: list[float] = field(default_factory=list)
    check: str = ""  # what is wrong with its results

    @property
    def secs(self) -> float:
        """Seconds of one run."""
        return median(self.rows)

    @property
    def spread(self) -> float:
        """How much longer a usual run takes than the quickest."""
        return self.secs / min(self.rows)


def kernel(name: str, mod: IRModule, target: Target, *, bound: bool = True) -> TimedVersion:
    """A version of ours; `bound`: weights are packed once, outside of what is timed."""
    module = build(mod, target, prepacked=bound)
    function = entry_of(module)
    arguments = ArgumentSet.random(specs_of(mod), accesses_of(function), SEED, positive=False)
    own = [] if target.is_cpu else arguments.arrays
    on_device = [ndarray.array(array, module.device) for array in own]
    args = packed(module, arguments.arrays) if target.is_cpu else on_device

    def results() -> list[Array]:
        if target.is_cpu:
            return [guarded.array for _, guarded in arguments.outputs()]
        return [on_device[place].numpy() for place, _ in arguments.outputs()]

    return TimedVersion(name, lambda number: function.run_in_a_row(args, number), results)


def inputs_of(mod: IRModule, target: Target) -> list[Array]:
    """The arguments that all versions are called with, outputs included."""
    accesses = accesses_of(entry_of(build(mod, target)))
    return ArgumentSet.random(specs_of(mod), accesses, SEED, positive=False).arrays


def python_function(
    name: str,
    call: Callable[[], object],
    output: Callable[[], object],
    wait: Callable[[], object] = lambda: None,
) -> TimedVersion:
    """A version of somebody else's, called from Python; `wait` until what it started is done."""

    def run(number: int) -> float:
        wait()
        start = time.perf_counter()
        for _ in range(number):
            call()
        wait()
        return time.perf_counter() - start

    return TimedVersion(name, run, lambda: [on_host(output())], settle=True)


def on_host(result: Any) -> Array:
    """An array of NumPy of what a function returned, which may be on a GPU."""
    has_device = hasattr(result, "__dlpack_device__") and result.__dlpack_device__()[0] != CPU
    return ndarray.from_dlpack(result).numpy() if has_device else np.asarray(result)


def require_numbers(name: str, result: object) -> None:
    """What a function of the user's own returned must be an array of numbers."""
    found = on_host(result)
    if found.dtype.kind not in _NUMBERS and not str(found.dtype).startswith(_SMALL_FLOATS):
        what = "nothing" if result is None else f"{type(result).__name__} of {found.dtype}"
        raise TuneError(f"{name} returns {what}, expected the output as an array of numbers")


def compare(versions: Sequence[TimedVersion], rounds: int | None = None) -> None:
    """Run all versions in turn; the results of the first one are what the others must give."""
    expected_runs = {}
    for version in versions:
        version.run(1)  # pages, threads, caches
        secs = version.run(1)
        expected_runs[version.name] = max(1, round(ROW_SECS / max(secs, 1e-9)))
        if secs > SLOW_SECS:
            version.rows = [secs]
    for _ in range(rounds or ROUNDS):
        for version in versions:
            number = expected_runs[version.name]
            if version.rows and version.rows[0] > SLOW_SECS:
                continue
            version.rows.append(version.run(number) / number)
            if version.settle:
                time.sleep(SETTLE_SECS)


def other_load(cores: int) -> str:
    """What to tell a user whose machine has more to do than it has cores; asked before running."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return f"the load of this machine was {load:.1f} on {cores} cores" if load > cores else ""


def check(versions: Sequence[TimedVersion], mod: IRModule) -> None:
    """Note for each version in what its results differ from those of the first one."""
    rounding = rounding_of(mod)
    wanted = [array.copy() for array in versions[0].results()]
    for version in versions[1:]:
        for place, (want, have) in enumerate(zip(wanted, version.results(), strict=True)):
            dtype = str(want.dtype)
            shaped = np.ascontiguousarray(have, want.dtype)
            if shaped.shape != want.shape:
                version.check = f"output {place} has the shape {shaped.shape}, not {want.shape}"
                break
            found = difference(want, shaped, dtype, 4 * rounding.tolerance(dtype))
            if found:
                version.check = f"output {place}: {found}"
                break


def measure_alone(mod: IRModule, target: Target) -> float:
    """Seconds of one run of a program."""
    version = kernel("it", mod, target)
    compare([version])
    return version.secs
