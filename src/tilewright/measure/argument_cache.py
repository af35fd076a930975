"""`ArgumentCache`: the arguments and expected results that the candidates of a workload share."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tilewright.codegen.artifact import Artifact
from tilewright.ir import DType
from tilewright.ir.numpy_bridge import from_numpy, to_numpy
from tilewright.measure.arguments import (
    Access,
    ArgumentSet,
    Array,
    GuardedArray,
    TensorSpec,
    is_float,
)
from tilewright.measure.artifact import load_artifact, name_of, precise_name
from tilewright.measure.checking import Standard, difference, inexact_outputs
from tilewright.measure.tolerance import Rounding
from tilewright.runtime.binding import packers_of, shape_of
from tilewright.runtime.module import CompiledFunction, Module
from tilewright.support.files import write_whole


def entry_of(module: Module) -> CompiledFunction:
    """The function of a module that is measured."""
    return module[module.entry_name]


def accesses_of(function: CompiledFunction) -> tuple[Access, ...]:
    """How a compiled function uses each of its arguments."""
    return tuple(spec.access for spec in function.signature)


def packed(module: Module, args: Sequence[object]) -> list[object]:
    """The arguments as a candidate takes them: weights in the layout that it wants."""
    arranged = list(args)
    for position, pack in packers_of(module).items():
        dtype = to_numpy(pack.signature[1].dtype)
        arranged[position] = GuardedArray(dtype, shape_of(pack.signature[1])).array
        pack(args[position], arranged[position])
    return arranged


Results = dict[int, Array]  # by position of the argument


class ReferenceRun(NamedTuple):
    """What a function makes of arguments, as it is and in higher precision."""

    results: Results
    precise: Results
    secs: float  # as it is


def run_reference(module: Module, arguments: ArgumentSet) -> ReferenceRun:
    """Run a function, and the same function in higher precision if the module has it."""
    plain, secs = _results_of(entry_of(module), arguments)
    twin = precise_name(module.entry_name)
    if twin not in module:
        return ReferenceRun(plain, {}, secs)
    precise, _ = _results_of(module[twin], arguments)
    floats = {n: array for n, array in precise.items() if is_float(array)}
    return ReferenceRun(plain, floats, secs)


def _results_of(function: CompiledFunction, arguments: ArgumentSet) -> tuple[Results, float]:
    """The arrays that a function writes, and the seconds it takes."""
    arguments.restore()
    secs = function.run_in_a_row(arguments.arrays)
    return {n: guarded.array.copy() for n, guarded in arguments.outputs()}, secs


@dataclass(frozen=True)
class Expectation:
    """What the untransformed function makes of the arguments.

    A candidate must agree with it, or with the same function in higher precision: one that rounds
    less than its program is right, too.
    """

    accesses: tuple[Access, ...]
    positive: bool
    rounding: Rounding
    results: Results
    precise: Results = field(default_factory=dict)  # floats only; empty if they are not known
    notes: tuple[str, ...] = ()  # what is wrong with the function itself
    plain_secs: float | None = None  # of its run, where it was not remembered

    def complaint(self, arguments: ArgumentSet) -> str:
        """What is wrong with what a candidate made of them; empty if nothing is."""
        damage = arguments.damage()
        if damage:
            return damage
        for position, guarded in arguments.outputs():
            dtype = str(from_numpy(guarded.array.dtype))
            precise, allowed = self.precise.get(position), self.rounding.precise_tolerance(dtype)
            found = difference(
                self.results[position],
                guarded.array,
                dtype,
                self.rounding.tolerance(dtype),
                None if precise is None else Standard(precise, allowed),
            )
            if found:
                return f"argument {position}: {found}"
        return ""


def expectation_for(
    reference: Artifact | str, args: Sequence[Array]
) -> tuple[Expectation, ArgumentSet]:
    """What a reference makes of given arguments, and a copy of them to run a candidate on."""
    module, rounding = load_artifact(reference)
    accesses = accesses_of(entry_of(module))
    arguments = ArgumentSet(accesses, [np.array(arg) for arg in args])
    ran = run_reference(module, arguments)
    return Expectation(accesses, False, rounding, ran.results, ran.precise), arguments


class ArgumentCache:
    """Keeps the arguments and the expected results of the workload that came last."""

    def __init__(self) -> None:
        self._expectations: dict[tuple[object, ...], Expectation] = {}
        self._sets: dict[tuple[object, ...], list[ArgumentSet]] = {}

    def argument_sets(
        self,
        infos: Sequence[TensorSpec],
        accesses: Sequence[Access],
        seed: int,
        *,
        count: int = 1,
        positive: bool = False,
    ) -> list[ArgumentSet]:
        """`count` independent sets of arguments; those of the last workload are at hand."""
        key = (tuple(infos), tuple(accesses), seed, positive)
        if key not in self._sets or len(self._sets[key]) < count:
            self._sets.clear()
            self._sets[key] = [
                ArgumentSet.random(infos, accesses, seed + number, positive=positive)
                for number in range(count)
            ]
        return self._sets[key][:count]

    def expectation(
        self, reference: Artifact | str, infos: Sequence[TensorSpec], seed: int, folder: str = ""
    ) -> Expectation:
        """What a reference computes; remembered, with a folder for processes that follow, too."""
        key = (name_of(reference), seed)
        if key not in self._expectations:
            self._expectations.clear()
            name = f"{hashlib.sha256(key[0].encode()).hexdigest()}.{seed}.expected"
            stored = Path(folder) / name if folder else None
            self._expectations[key] = self._find_out(reference, infos, seed, stored)
        return self._expectations[key]

    def _find_out(
        self, reference: Artifact | str, infos: Sequence[TensorSpec], seed: int, stored: Path | None
    ) -> Expectation:
        module, rounding = load_artifact(reference)
        accesses = accesses_of(entry_of(module))
        if stored is not None and stored.exists():
            return _load(stored, Expectation(accesses, False, rounding, {}), infos)
        for positive in (False, True):
            (arguments,) = self.argument_sets(infos, accesses, seed, positive=positive)
            ran = run_reference(module, arguments)
            if all(map(_is_finite, ran.results.values())):
                break
        found = Expectation(accesses, positive, rounding, ran.results, ran.precise)
        if stored is not None:
            _save(stored, found)
        notes = tuple(_doubts(module, found, arguments))
        return dataclasses.replace(found, notes=notes, plain_secs=ran.secs)


def _doubts(module: Module, found: Expectation, arguments: ArgumentSet) -> list[str]:
    """What is wrong with a function itself."""
    names = [spec.name for spec in entry_of(module).signature]
    doubts = inexact_outputs(names, found.results, found.precise, found.rounding)
    if doubts or not found.precise or not found.rounding.is_narrow:
        return doubts
    # Sums of either sign stay small: those of numbers that are alike show what gets lost.
    ran = run_reference(module, arguments.alike())
    return inexact_outputs(names, ran.results, ran.precise, found.rounding)


def _is_finite(array: Array) -> bool:
    kind = np.dtype(array.dtype).kind
    return kind in "biu" or bool(np.isfinite(array.astype(np.float32)).all())


def _save(file: Path, found: Expectation) -> None:
    """Write the results that candidates are compared with."""
    pieces = [
        results[position].tobytes()
        for results in (found.results, found.precise)
        for position in sorted(results)
    ]
    write_whole(file, b"".join([bytes([found.positive]), *pieces]))


def _load(file: Path, known: Expectation, infos: Sequence[TensorSpec]) -> Expectation:
    data = memoryview(file.read_bytes())
    written = {n: info for n, info in enumerate(infos) if "w" in known.accesses[n]}
    floats = {n: info for n, info in written.items() if DType(info.dtype).is_float}
    results, rest = _arrays(data[1:], written)
    precise, _ = _arrays(rest, floats) if rest else ({}, rest)
    return dataclasses.replace(known, positive=bool(data[0]), results=results, precise=precise)


def _arrays(data: memoryview, infos: Mapping[int, TensorSpec]) -> tuple[Results, memoryview]:
    """The arrays at the beginning of data, and what follows them."""
    results: Results = {}
    for position, info in infos.items():
        count = math.prod(info.shape)
        values = np.frombuffer(data, to_numpy(info.dtype), count)
        results[position] = values.reshape(info.shape)
        data = data[values.nbytes :]
    return results, data
