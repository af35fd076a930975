"""A compiled model: its kernels in a row, run by one call of native code.

Intermediate values have fixed places in one block of memory, constants are packed once, and the
slots from which kernels take their arguments are filled in before the first run. What is left for
each run are the addresses of inputs and outputs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from tilewright.codegen.host import native
from tilewright.errors import ArgumentError, RuntimeFailure
from tilewright.graph.graph import Array, Graph, GraphValue
from tilewright.graph.views import is_view
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.model.kernels import KernelCall
from tilewright.model.memory import Lifetime, plan_memory
from tilewright.runtime.cpu_device import aligned_memory
from tilewright.runtime.tensor_view import address_of


@dataclass(frozen=True)
class StepTime:
    """How long one kernel took."""

    name: str
    seconds: float
    sources: tuple[str, ...]  # nodes of the original model


class Executable:
    """Runs a graph; not from two threads at a time."""

    def __init__(self, graph: Graph, calls: Sequence[KernelCall]) -> None:
        self.graph = graph
        self.calls = tuple(calls)
        self._owners = _owners(graph)
        self._arena, places = self._allocate()
        self._packed = [self._pack(call) for call in self.calls]
        self._slots = [(ctypes.c_uint64 * len(call.values))() for call in self.calls]
        self._outside: dict[GraphValue, list[tuple[int, int]]] = {}
        for step, call in enumerate(self.calls):
            for position, value in enumerate(call.values):
                self._place(step, position, value, places)
        self._steps = (ctypes.c_uint64 * (2 * len(self.calls)))()
        for step, (call, slots) in enumerate(zip(self.calls, self._slots, strict=True)):
            self._steps[2 * step] = call.kernel.function.address
            self._steps[2 * step + 1] = ctypes.addressof(slots)

    def __call__(self, *inputs: Any) -> tuple[Array, ...]:
        """The outputs for inputs in the order of the graph."""
        return self._run(inputs, None)

    def profile(self, *inputs: Any) -> list[StepTime]:
        """The time of each kernel in one run."""
        times = (ctypes.c_int64 * (len(self.calls) + 1))()
        self._run(inputs, times)
        return [
            StepTime(
                call.group.name,
                (end - begin) / 1e9,
                tuple(node.source for node in call.group.nodes if node.source),
            )
            for call, (begin, end) in zip(self.calls, pairwise(times), strict=True)
        ]

    # --- running --------------------------------------------------------------------------------

    def _run(self, inputs: Sequence[Any], times: Any) -> tuple[Array, ...]:
        arrays = self._checked(inputs)
        outputs = {
            v: aligned_memory(v.type.extents, to_numpy(v.type.dtype)) for v in self.graph.outputs
        }
        held: dict[GraphValue, Array] = {**dict(zip(self.graph.inputs, arrays, strict=True))}
        for value in self.graph.outputs:
            held.setdefault(self._owners.get(value, value), outputs[value])
        for value, places in self._outside.items():
            address = address_of(held[value])
            for step, position in places:
                self._slots[step][position] = address
        self._launch(times)
        return tuple(self._delivered(value, outputs[value], held) for value in self.graph.outputs)

    def _launch(self, times: Any) -> None:
        status = ctypes.c_int32(0)
        count = len(self.calls)
        ran = _run_steps()(self._steps, count, times, ctypes.byref(status))
        if ran < count:
            call = self.calls[ran]
            raise RuntimeFailure(f"{call.group.name} failed with status {status.value}")

    def _delivered(self, value: GraphValue, own: Array, held: Mapping[GraphValue, Array]) -> Array:
        """An output; a constant, an input or a second name of another output is copied."""
        owner = self._owners.get(value, value)
        source = self.graph.constants.get(owner, held.get(owner))
        if source is not None and source is not own:
            own[...] = np.asarray(source).reshape(own.shape)
        return own

    def _checked(self, inputs: Sequence[Any]) -> list[Array]:
        if len(inputs) != len(self.graph.inputs):
            names = ", ".join(map(str, self.graph.inputs))
            raise ArgumentError(
                f"{self.graph.name} takes {len(self.graph.inputs)} inputs ({names}), "
                f"got {len(inputs)}"
            )
        arrays = []
        for value, given in zip(self.graph.inputs, inputs, strict=True):
            array = np.asarray(given)
            wanted = to_numpy(value.type.dtype)
            if array.shape != value.type.shape or array.dtype != wanted:
                raise ArgumentError(
                    f"input {value.name}: expected {value.type}, "
                    f"got {array.dtype}{list(array.shape)}"
                )
            arrays.append(_aligned(array))
        return arrays

    # --- preparing ------------------------------------------------------------------------------

    def _allocate(self) -> tuple[Array, dict[GraphValue, int]]:
        outside = {*self.graph.inputs, *self.graph.constants, *self.graph.outputs}
        outside |= {self._owners.get(value, value) for value in self.graph.outputs}
        lifetimes: dict[GraphValue, Lifetime] = {}
        for step, call in enumerate(self.calls):
            for value in map(lambda v: self._owners.get(v, v), call.values):
                if value not in outside:
                    first = lifetimes[value].first if value in lifetimes else step
                    lifetimes[value] = Lifetime(value.type.bytes, first, step)
        plan = plan_memory(lifetimes)
        arena = aligned_memory((max(plan.bytes, 1),), np.dtype(np.uint8))
        base = address_of(arena)
        return arena, {value: base + offset for value, offset in plan.offsets.items()}

    def _pack(self, call: KernelCall) -> dict[int, Array]:
        """Constants in the form that a kernel wants, by position."""
        packed: dict[int, Array] = {}
        packers = call.kernel.packers
        for position, value in enumerate(call.group.inputs):
            constant = self.graph.constants.get(self._owners.get(value, value))
            if constant is None:
                continue
            array = _aligned(np.ascontiguousarray(constant).reshape(value.type.extents))
            if position in packers:
                spec = packers[position].signature[1]
                result = aligned_memory(tuple(map(int, spec.shape)), to_numpy(spec.dtype))
                packers[position](array, result)
                array = result
            packed[position] = array
        return packed

    def _place(
        self, step: int, position: int, value: GraphValue, places: Mapping[GraphValue, int]
    ) -> None:
        value = self._owners.get(value, value)
        if position in self._packed[step]:
            self._slots[step][position] = address_of(self._packed[step][position])
        elif value in places:
            self._slots[step][position] = places[value]
        else:
            self._outside.setdefault(value, []).append((step, position))


def _owners(graph: Graph) -> dict[GraphValue, GraphValue]:
    """The value whose memory a view shows."""
    owners: dict[GraphValue, GraphValue] = {}
    for node in graph.nodes:
        if is_view(node):
            source = node.operands[0]
            owners[node.outputs[0]] = owners.get(source, source)
    return owners


def _aligned(array: Array) -> Array:
    if address_of(array) % 64 == 0 and array.flags.c_contiguous:
        return array
    copy = aligned_memory(array.shape, array.dtype)
    copy[...] = array
    return copy


@lru_cache(maxsize=1)
def _run_steps() -> Any:
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kind = ctypes.CFUNCTYPE(number, pointer, number, pointer, pointer)
    return kind(native.symbols()["tw_run_steps"])
