"""The arguments and the expected results of the workload that a runner's worker is busy with."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.ir.numpy_bridge import from_numpy, to_numpy
from tilewright.measure.arguments import Access, ArgumentSet, Array, GuardedArray, TensorSpec
from tilewright.measure.artifact import load_artifact
from tilewright.measure.checking import difference
from tilewright.measure.tolerance import Rounding
from tilewright.runtime.binding import packed_shape, packers_of
from tilewright.runtime.module import CompiledFunction, Module


def entry_of(module: Module) -> CompiledFunction:
    """The function of a module that is measured."""
    return module[module.entry_name]


def accesses_of(function: CompiledFunction) -> tuple[Access, ...]:
    """How a compiled function uses each of its arguments."""
    return tuple(spec.access for spec in function.signature)


def packed(module: Module, args: Sequence[Any]) -> list[Any]:
    """The arguments as a candidate takes them: weights in the layout that it wants."""
    arranged = list(args)
    for position, pack in packers_of(module).items():
        dtype = to_numpy(pack.signature[1].dtype)
        arranged[position] = GuardedArray(dtype, packed_shape(pack)).array
        pack(args[position], arranged[position])
    return arranged


def results_of(function: CompiledFunction, arguments: ArgumentSet) -> dict[int, Array]:
    """What a function makes of arguments: the arrays that it writes, by position."""
    arguments.restore()
    function(*arguments.arrays)
    return {position: guarded.array.copy() for position, guarded in arguments.outputs()}


@dataclass(frozen=True)
class Expectation:
    """What the untransformed function makes of the arguments."""

    accesses: tuple[Access, ...]
    positive: bool
    rounding: Rounding
    results: dict[int, Array]  # by position of the argument

    def complaint(self, arguments: ArgumentSet) -> str:
        """What is wrong with what a candidate made of them; empty if nothing is."""
        damage = arguments.damage()
        if damage:
            return damage
        for position, guarded in arguments.outputs():
            dtype = str(from_numpy(guarded.array.dtype))
            found = difference(
                self.results[position], guarded.array, dtype, self.rounding.tolerance(dtype)
            )
            if found:
                return f"argument {position}: {found}"
        return ""


def expectation_for(reference: str, args: Sequence[Any]) -> tuple[Expectation, ArgumentSet]:
    """What a reference makes of given arguments, and a copy of them to run a candidate on."""
    module, rounding = load_artifact(reference)
    function = entry_of(module)
    accesses = accesses_of(function)
    arguments = ArgumentSet(accesses, [np.array(arg) for arg in args])
    return Expectation(accesses, False, rounding, results_of(function, arguments)), arguments


class Workbench:
    """Keeps what the candidates of one workload share."""

    def __init__(self) -> None:
        self._expectations: dict[tuple[Any, ...], Expectation] = {}
        self._sets: dict[tuple[Any, ...], list[ArgumentSet]] = {}
        self.under_way: object = None  # the candidate between its first look and its measurement

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

    def expectation(self, reference: str, infos: Sequence[TensorSpec], seed: int) -> Expectation:
        """What a reference computes; remembered, also in a file beside the reference."""
        key = (reference, seed)
        if key not in self._expectations:
            self._expectations.clear()
            self._expectations[key] = self._find_out(reference, infos, seed)
        return self._expectations[key]

    def _find_out(self, reference: str, infos: Sequence[TensorSpec], seed: int) -> Expectation:
        module, rounding = load_artifact(reference)
        function = entry_of(module)
        accesses = accesses_of(function)
        stored = Path(f"{reference}.{seed}.expected")
        if stored.exists():
            return _load(stored, Expectation(accesses, False, rounding, {}), infos)
        results = self._run_reference(function, infos, seed, positive=False)
        positive = not all(map(_is_finite, results.values()))
        if positive:
            results = self._run_reference(function, infos, seed, positive=True)
        found = Expectation(accesses, positive, rounding, results)
        _save(stored, found)
        return found

    def _run_reference(
        self, function: CompiledFunction, infos: Sequence[TensorSpec], seed: int, *, positive: bool
    ) -> dict[int, Array]:
        accesses = accesses_of(function)
        (arguments,) = self.argument_sets(infos, accesses, seed, positive=positive)
        return results_of(function, arguments)


def _is_finite(array: Array) -> bool:
    kind = np.dtype(array.dtype).kind
    return kind in "biu" or bool(np.isfinite(array.astype(np.float32)).all())


def _save(file: Path, found: Expectation) -> None:
    """Write results in one piece: a reader finds all of them or no file."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    pieces = [found.results[position].tobytes() for position in sorted(found.results)]
    draft.write_bytes(b"".join([bytes([found.positive]), *pieces]))
    draft.replace(file)


def _load(file: Path, known: Expectation, infos: Sequence[TensorSpec]) -> Expectation:
    data = file.read_bytes()
    results, start = {}, 1
    for position, (access, info) in enumerate(zip(known.accesses, infos, strict=True)):
        if "w" in access:
            count = math.prod(info.shape)
            values = np.frombuffer(data, to_numpy(info.dtype), count, start)
            results[position] = values.reshape(info.shape)
            start += values.nbytes
    return dataclasses.replace(known, positive=bool(data[0]), results=results)
