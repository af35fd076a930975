"""Running a program, however it was made: compiled just now, or read from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.model.arguments import input_arrays, output_arrays, writable_by_kernels
from tilewright.model.frame import Arrays, Frame, LoadedCode
from tilewright.model.profiling import ModelProfile, Peaks, checked_repeats, profile_of
from tilewright.model.program import ModelProgram, ModelStep
from tilewright.runtime.devices import cpu
from tilewright.runtime.tensor_view import Array
from tilewright.runtime.threads import limited_threads, num_threads


@dataclass(frozen=True)
class StepRun:
    """One step of one run."""

    step: ModelStep
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    has_packed_constants: bool = True  # in the form that its kernel wants; else as in the graph


class ModelRunner:
    """Runs a program, also from several threads at a time: each run has memory of its own."""

    device = cpu()

    def __init__(self, program: ModelProgram, code: LoadedCode, constants: Sequence[Array]) -> None:
        self.program = program
        self._code = code
        self._constants = constants
        self._frames = [self._new_frame()]

    def __call__(
        self,
        *inputs: Any,
        threads: int | None = None,
        out: Sequence[Any] | None = None,
        **named: Any,
    ) -> tuple[Any, ...]:
        """The outputs for inputs by position or by name: arrays of NumPy, or any with `__dlpack__`.

        `threads` is for this call alone. `out` are arrays for the outputs, which are returned.
        """
        return self._called(input_arrays(self.program, inputs, named), threads, out)

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        threads: int | None = None,
        out: Sequence[Any] | None = None,
    ) -> tuple[Any, ...]:
        """The outputs for inputs by name."""
        return self._called(input_arrays(self.program, [], inputs), threads, out)

    def profile(
        self,
        *inputs: Any,
        repeats: int = 10,
        threads: int | None = None,
        peaks: Peaks | None = None,
        **named: Any,
    ) -> ModelProfile:
        """The time of each kernel, the median of some runs; it prints as a table.

        `peaks` says what the machine can do; without it what its processor is built for.
        """
        arrays = input_arrays(self.program, inputs, named)
        runs: list[list[int]] = []
        with limited_threads(threads):
            self._run(arrays, output_arrays(self.program, None))
            for _ in range(checked_repeats(repeats)):
                runs.append([])
                self._run(arrays, output_arrays(self.program, None), runs[-1])
        return profile_of(self.program, runs, threads or num_threads(), peaks)

    def trace(self, *inputs: Any, **named: Any) -> Iterator[StepRun]:
        """Run step by step, with copies of what each step reads and makes."""
        arrays = Arrays(
            input_arrays(self.program, inputs, named), output_arrays(self.program, None)
        )
        steps = zip(self.program.steps, self._new_frame().trace(arrays), strict=True)
        return (StepRun(step, tuple(read), tuple(made)) for step, (read, made) in steps)

    @property
    def memory_bytes(self) -> int:
        """Intermediate values and constants, which is all that stays while nobody runs it."""
        return self.program.arena_bytes + sum(array.nbytes for array in self._constants)

    # --- running --------------------------------------------------------------------------------

    def _called(
        self, inputs: list[Array], threads: int | None, out: Sequence[Any] | None
    ) -> tuple[Any, ...]:
        wanted = output_arrays(self.program, out)
        with limited_threads(threads):
            self._run(inputs, wanted)
        return tuple(wanted if out is None else out)

    def _run(
        self, inputs: list[Array], wanted: list[Array], times: list[int] | None = None
    ) -> None:
        arrays = Arrays(inputs, writable_by_kernels(wanted, inputs))
        frame = self._take_frame()
        try:
            frame.run(arrays, times)
            self._deliver(frame, arrays)
        finally:
            self._frames.append(frame)
        for array, made in zip(wanted, arrays.outputs, strict=True):
            if array is not made:
                array[...] = made

    def _take_frame(self) -> Frame:
        """One that no other thread uses now."""
        try:
            return self._frames.pop()
        except IndexError:
            return self._new_frame()

    def _new_frame(self) -> Frame:
        return Frame(self.program, self._code, self._constants)

    def _deliver(self, frame: Frame, arrays: Arrays) -> None:
        """A constant, an input or a second name of another output is copied."""
        results = zip(self.program.results, self.program.outputs, strict=True)
        for number, (place, info) in enumerate(results):
            if place.memory != "output" or place.index != number:
                arrays.outputs[number][...] = frame.array(place, info, arrays)
