"""The memory of one run of a program, and the native calls that run it.

Kernels that follow each other run in one call of native code; only an external step comes between.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.codegen.host import native
from tilewright.errors import KernelAssertError, RuntimeFailure
from tilewright.model.program import EXTERNAL, ArrayPlace, ModelProgram, ModelStep, ValueInfo
from tilewright.runtime.cpu_device import aligned_memory
from tilewright.runtime.tensor_view import Array, address_of

if TYPE_CHECKING:
    from tilewright.model.external import ExternalFunction


@dataclass(frozen=True)
class LoadedCode:
    """What the steps of a program run: machine code by number, functions by step."""

    addresses: Sequence[int]
    messages: Sequence[tuple[str, ...]]  # of the assertions of each kernel
    externals: dict[int, ExternalFunction]
    owner: object  # keeps the machine code in memory


@dataclass(frozen=True)
class Arrays:
    """What a run reads and writes outside of its own memory."""

    inputs: Sequence[Array]
    outputs: Sequence[Array]


class Frame:
    """Intermediate values and filled-in arguments: all that a run has for itself."""

    def __init__(self, program: ModelProgram, code: LoadedCode, constants: Sequence[Array]) -> None:
        self._program = program
        self._code = code
        self._constants = constants
        self._arena = aligned_memory((max(program.arena_bytes, 1),), np.dtype(np.uint8))
        self._slots = [(ctypes.c_uint64 * len(step.arguments))() for step in program.steps]
        self._outside: dict[ArrayPlace, list[tuple[Any, int]]] = {}
        self._steps = (ctypes.c_uint64 * (2 * len(program.steps)))()
        for number, step in enumerate(program.steps):
            if step.kernel != EXTERNAL:
                self._prepare(number, step)
        self._segments = list(_segments(program.steps))

    def run(self, arrays: Arrays, times: list[int] | None = None) -> None:
        """All steps; with `times` the nanoseconds of each are appended."""
        self._fill_in(arrays)
        for begin, end in self._segments:
            self._run_steps(begin, end, arrays, times)

    def trace(self, arrays: Arrays) -> Iterator[tuple[list[Array], list[Array]]]:
        """Run step by step: copies of what each reads and makes, constants as they lie."""
        self._fill_in(arrays)
        for number, step in enumerate(self._program.steps):
            held = list(zip(step.arguments, step.values, strict=True))
            read = [
                self._constants[place.index]
                if place.memory == "constant"
                else self.array(place, info, arrays).copy()
                for place, info in held[: step.inputs]
            ]
            self._run_steps(number, number + 1, arrays)
            yield read, [self.array(*each, arrays).copy() for each in held[step.inputs :]]

    def _fill_in(self, arrays: Arrays) -> None:
        for place, slots in self._outside.items():
            address = address_of(_outside(place, arrays))
            for array, position in slots:
                array[position] = address

    def _run_steps(
        self, begin: int, end: int, arrays: Arrays, times: list[int] | None = None
    ) -> None:
        """Kernels that follow each other, or one external step."""
        if self._program.steps[begin].kernel == EXTERNAL:
            start = time.perf_counter_ns()
            self._call(begin, arrays)
            spent = [time.perf_counter_ns() - start]
        else:
            spent = self._launch(begin, end, times is not None)
        if times is not None:
            times.extend(spent)

    def array(self, place: ArrayPlace, info: ValueInfo, arrays: Arrays) -> Array:
        """The memory of a value, as an array."""
        if place.memory == "arena":
            made: Array = np.ndarray(info.shape, info.element_type, self._arena, place.index)
            return made
        if place.memory == "constant":
            return self._constants[place.index].reshape(info.shape)
        return _outside(place, arrays).reshape(info.shape)

    # --- machine code ---------------------------------------------------------------------------

    def _prepare(self, number: int, step: ModelStep) -> None:
        slots, base = self._slots[number], address_of(self._arena)
        for position, place in enumerate(step.arguments):
            if place.memory == "arena":
                slots[position] = base + place.index
            elif place.memory == "constant":
                slots[position] = address_of(self._constants[place.index])
            else:
                self._outside.setdefault(place, []).append((slots, position))
        self._steps[2 * number] = self._code.addresses[step.kernel]
        self._steps[2 * number + 1] = ctypes.addressof(slots)

    def _launch(self, begin: int, end: int, timed: bool) -> list[int]:
        count, status = end - begin, ctypes.c_int32(0)
        clock = (ctypes.c_int64 * (count + 1))() if timed else None
        first = ctypes.byref(self._steps, 16 * begin)
        ran = _native_run_steps()(first, count, clock, ctypes.byref(status))
        if ran < count:
            raise self._failure(self._program.steps[begin + ran], status.value)
        return [after - before for before, after in pairwise(clock)] if clock is not None else []

    def _failure(self, step: ModelStep, status: int) -> Exception:
        messages = self._code.messages[step.kernel]
        if 0 < status <= len(messages):
            return KernelAssertError(f"{step.name}: {messages[status - 1]}")
        return RuntimeFailure(f"{step.name} failed with status {status}")

    # --- external steps -------------------------------------------------------------------------

    def _call(self, number: int, arrays: Arrays) -> None:
        step = self._program.steps[number]
        held = [
            self.array(place, info, arrays)
            for place, info in zip(step.arguments, step.values, strict=True)
        ]
        results = tuple(self._code.externals[number](held[: step.inputs]))
        wanted = step.values[step.inputs :]
        if len(results) != len(wanted):
            raise RuntimeFailure(
                f"{step.name} returned {len(results)} arrays, expected {len(wanted)}"
            )
        for result, info, memory in zip(results, wanted, held[step.inputs :], strict=True):
            given = np.asarray(result)
            if given.shape != info.shape or given.dtype != info.element_type:
                raise RuntimeFailure(
                    f"{step.name} returned {given.dtype}{list(given.shape)} for {info.name}, "
                    f"expected {info.type}"
                )
            memory[...] = given


def _outside(place: ArrayPlace, arrays: Arrays) -> Array:
    return (arrays.inputs if place.memory == "input" else arrays.outputs)[place.index]


def _segments(steps: Sequence[ModelStep]) -> Iterator[tuple[int, int]]:
    """Ranges of steps that run in one go."""
    begin = 0
    for number, step in enumerate(steps):
        if step.kernel == EXTERNAL:
            if begin < number:
                yield begin, number
            yield number, number + 1
            begin = number + 1
    if begin < len(steps):
        yield begin, len(steps)


@lru_cache(maxsize=1)
def _native_run_steps() -> Any:
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kind = ctypes.CFUNCTYPE(number, pointer, number, pointer, pointer)
    return kind(native.symbols()["tw_run_steps"])
