"""A compiled model: its kernels in a row, run by one call of native code.

Intermediate values have fixed places in one block of memory, constants are packed once, and the
slots from which kernels take their arguments are filled in before the first run. What is left for
each run are the addresses of inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import ArgumentError
from tilewright.graph.graph import Array, Graph
from tilewright.model.external import ExternalCall
from tilewright.model.frame import Arrays, Frame, LoadedCode
from tilewright.model.planning import ModelCall, Plan, aligned, plan_program
from tilewright.runtime.cpu_device import aligned_memory


@dataclass(frozen=True)
class StepTime:
    """How long one kernel took."""

    name: str
    seconds: float
    sources: tuple[str, ...]  # nodes of the original model


class Executable:
    """Runs a graph, also from several threads at a time: each run has memory of its own."""

    def __init__(self, graph: Graph, calls: Sequence[ModelCall]) -> None:
        self.graph = graph
        self.calls = tuple(calls)
        plan = plan_program(graph, self.calls)
        self.program = plan.program
        self._constants = plan.constants
        self._code = _loaded_code(plan, self.calls)
        self._frames = [Frame(self.program, self._code, self._constants)]

    def __call__(self, *inputs: Any) -> tuple[Array, ...]:
        """The outputs for inputs in the order of the graph."""
        return self._run(inputs, None)

    def profile(self, *inputs: Any) -> list[StepTime]:
        """The time of each kernel in one run."""
        times: list[int] = []
        self._run(inputs, times)
        return [
            StepTime(step.name, spent / 1e9, step.sources)
            for step, spent in zip(self.program.steps, times, strict=True)
        ]

    # --- running --------------------------------------------------------------------------------

    def _run(self, inputs: Sequence[Any], times: list[int] | None) -> tuple[Array, ...]:
        outputs = [aligned_memory(v.shape, v.element_type) for v in self.program.outputs]
        arrays = Arrays(self._checked(inputs), outputs)
        frame = self._take_frame()
        try:
            frame.run(arrays, times)
            self._deliver(frame, arrays)
        finally:
            self._frames.append(frame)
        return tuple(outputs)

    def _take_frame(self) -> Frame:
        """One that no other thread uses now."""
        try:
            return self._frames.pop()
        except IndexError:
            return Frame(self.program, self._code, self._constants)

    def _deliver(self, frame: Frame, arrays: Arrays) -> None:
        """A constant, an input or a second name of another output is copied."""
        results = zip(self.program.results, self.program.outputs, strict=True)
        for number, (place, info) in enumerate(results):
            if place.memory != "output" or place.index != number:
                arrays.outputs[number][...] = frame.array(place, info, arrays)

    def _checked(self, inputs: Sequence[Any]) -> list[Array]:
        wanted = self.program.inputs
        if len(inputs) != len(wanted):
            names = ", ".join(map(str, wanted))
            raise ArgumentError(
                f"{self.program.name} takes {len(wanted)} inputs ({names}), got {len(inputs)}"
            )
        arrays = []
        for info, given in zip(wanted, inputs, strict=True):
            array = np.asarray(given)
            if array.shape != info.shape or array.dtype != info.element_type:
                raise ArgumentError(
                    f"input {info.name}: expected {info.type}, got {array.dtype}{list(array.shape)}"
                )
            arrays.append(aligned(array))
        return arrays


def _loaded_code(plan: Plan, calls: Sequence[ModelCall]) -> LoadedCode:
    externals = {n: c.function for n, c in enumerate(calls) if isinstance(c, ExternalCall)}
    functions = [kernel.function for kernel in plan.kernels]
    messages = [kernel.module.info.messages for kernel in plan.kernels]
    return LoadedCode([f.address for f in functions], messages, externals, functions)
