"""A compiled model on a GPU: all its kernels in one CUDA graph, replayed at each call.

Weights lie in the memory of the GPU, intermediate values at fixed places in one block of it. A
graph holds the addresses of inputs and outputs, so there is one for each set of addresses: who
calls with the same arrays again replays it without a copy. Where addresses keep changing, inputs
and outputs are copied to and from arrays of the model's own.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tilewright.errors import ArgumentError, RuntimeFailure
from tilewright.graph.graph import Array, Graph, GraphValue
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.model.kernels import KernelCall
from tilewright.model.memory import Lifetime, plan_memory
from tilewright.model.planning import owners_of
from tilewright.native.cuda_driver import cuda_driver
from tilewright.native.cuda_memory import memory_pool
from tilewright.runtime import ndarray
from tilewright.runtime.binding import packed_shape
from tilewright.runtime.cuda_device import CudaApi
from tilewright.runtime.cuda_graph import CudaGraph
from tilewright.runtime.devices import Device
from tilewright.runtime.dlpack import TensorView, row_major_strides
from tilewright.runtime.ndarray import NDArray
from tilewright.runtime.tensor_view import DeviceMemory, view_of
from tilewright.schedule.analysis import flop_of

Addresses: TypeAlias = Mapping[GraphValue, int]


class Places(NamedTuple):
    """Addresses of inputs and outputs, in their order."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


_ALIGNMENT = 256  # of outputs, as the driver's own
_GRAPHS = 8  # for different addresses of inputs and outputs
_RUNS = 20  # of each kernel, when it is timed


@dataclass(frozen=True)
class KernelTime:
    """How long one kernel takes."""

    name: str
    sources: tuple[str, ...]  # nodes of the original model
    seconds: float
    flop: float

    @property
    def gflops(self) -> float:
        """Operations a nanosecond."""
        return self.flop / self.seconds / 1e9 if self.seconds else 0.0


class GpuExecutable:
    """Runs a graph on a GPU; not from two threads at a time."""

    def __init__(self, graph: Graph, calls: Sequence[KernelCall], device_id: int = 0) -> None:
        self.graph = graph
        self.calls = tuple(calls)
        self.device = Device("cuda", device_id)
        self._graphs: dict[Places, CudaGraph] = {}

    @cached_property
    def _program(self) -> _Program:
        """What a run needs in the memory of the GPU; it is brought there by the first run."""
        return _Program(self.graph, self.calls, self.device)

    def __call__(self, *inputs: Any) -> tuple[NDArray, ...]:
        """The outputs for inputs on the GPU, in the order of the graph.

        Runs on the current stream; the GPU may still work when it returns.
        """
        places, outputs = self._places(inputs)
        if places not in self._graphs and len(self._graphs) >= _GRAPHS:
            self._run_on_own_arrays(places)
        else:
            self._replay(places)
        return outputs

    def profile(self, *inputs: Any) -> list[KernelTime]:
        """The time of each kernel, when it runs again and again."""
        program = self._program
        places, _ = self._places(inputs)
        program.run(places)  # values that decide how long a kernel takes
        return [
            KernelTime(
                call.group.name,
                tuple(node.source for node in call.group.nodes if node.source),
                program.seconds(step, places, _RUNS),
                flop_of(call.kernel.func),
            )
            for step, call in enumerate(self.calls)
        ]

    # --- running --------------------------------------------------------------------------------

    def _places(self, inputs: Sequence[Any]) -> tuple[Places, tuple[NDArray, ...]]:
        """Addresses of inputs and of new outputs, and those outputs."""
        program = self._program  # first of all: without a GPU that says what is missing
        given = self._checked(inputs)
        outputs = program.empty(self.graph.outputs)
        return Places(tuple(x.address for x in given), tuple(map(_address, outputs))), outputs

    def _replay(self, places: Places) -> None:
        driver, device_id = cuda_driver(), self.device.device_id
        if places not in self._graphs:
            if not self._graphs:
                self._program.run(places)  # loads the kernels
            self._graphs[places] = CudaGraph(driver, device_id, lambda: self._program.run(places))
        driver.activate(device_id)
        self._graphs[places].replay(driver.stream(device_id))

    def _run_on_own_arrays(self, places: Places) -> None:
        own, graph = Places(*(tuple(map(_address, part)) for part in self._own_arrays)), self.graph
        for value, target, source in zip(graph.inputs, own.inputs, places.inputs, strict=True):
            self._program.copy(target, source, value.type.bytes)
        self._replay(own)
        for value, target, source in zip(graph.outputs, places.outputs, own.outputs, strict=True):
            self._program.copy(target, source, value.type.bytes)

    @cached_property
    def _own_arrays(self) -> tuple[tuple[NDArray, ...], tuple[NDArray, ...]]:
        """Inputs and outputs with a graph of their own, which takes the place of the oldest."""
        self._graphs.pop(next(iter(self._graphs)))
        empty = self._program.empty
        return empty(self.graph.inputs), empty(self.graph.outputs)

    def _checked(self, inputs: Sequence[Any]) -> list[TensorView]:
        if len(inputs) != len(self.graph.inputs):
            names = ", ".join(map(str, self.graph.inputs))
            raise ArgumentError(
                f"{self.graph.name} takes {len(self.graph.inputs)} inputs ({names}), "
                f"got {len(inputs)}"
            )
        return [
            self._view(value, given) for value, given in zip(self.graph.inputs, inputs, strict=True)
        ]

    def _view(self, value: GraphValue, given: Any) -> TensorView:
        view, here = view_of(given), str(self.device)
        if view is None:
            raise ArgumentError(
                f"input {value.name}: expected {value.type}, got {type(given).__name__}"
            )
        if view.device != here:
            raise ArgumentError(
                f"input {value.name}: the array is on {view.device}, expected it on {here}; "
                "tilewright.nd.array(x, tilewright.cuda()) copies it"
            )
        if tuple(view.shape) != value.type.shape or view.dtype != value.type.dtype:
            raise ArgumentError(
                f"input {value.name}: expected {value.type}, got {view.dtype}{list(view.shape)}"
            )
        if not _is_compact(view) or view.address % CudaApi.alignment:
            raise ArgumentError(
                f"input {value.name}: expected a row-major array without gaps that begins at a "
                f"multiple of {CudaApi.alignment} bytes; pass a contiguous copy"
            )
        return view


class _Program:
    """Kernels, weights and places of values on one GPU."""

    def __init__(self, graph: Graph, calls: Sequence[KernelCall], device: Device) -> None:
        self._graph = graph
        self._calls = calls
        self._device = device
        self._driver = cuda_driver()
        self._owners = owners_of(graph)
        self._functions = [call.kernel.function for call in calls]
        self._formats = [struct.Struct(f"<{len(call.values)}Q") for call in calls]
        self._constants: dict[GraphValue, NDArray] = {}
        self._weights = [self._weights_of(call) for call in calls]
        self._arena, self._places = self._allocate()

    def empty(self, values: Sequence[GraphValue]) -> tuple[NDArray, ...]:
        """Arrays for values, in one block, so that addresses come again when all have gone."""
        starts = [*itertools.accumulate((_rounded(v.type.bytes) for v in values), initial=0)]
        block = memory_pool(self._device.device_id).allocate(starts[-1])
        return tuple(
            NDArray(
                DeviceMemory(
                    self._device, v.type.extents, to_numpy(v.type.dtype), block.address + at, block
                ),
                self._device,
            )
            for v, at in zip(values, starts, strict=False)
        )

    def run(self, outside: Places) -> None:
        """All kernels, on the current stream."""
        known = self._held(outside)
        for step, function in enumerate(self._functions):
            if status := function._run(self._slots(step, known)):
                name = self._calls[step].group.name
                raise RuntimeFailure(f"{name} failed with status {status}")
        for value, target in zip(self._graph.outputs, outside.outputs, strict=True):
            source = self._address_of(value, known)
            if source != target:
                self.copy(target, source, value.type.bytes)

    def seconds(self, step: int, outside: Places, number: int) -> float:
        """The time of one kernel."""
        slots = self._slots(step, self._held(outside))
        timing = self._device.api.time(self._functions[step]._run, slots, number)
        return timing.nanoseconds * 1e-9 / number

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy on the GPU, on the current stream."""
        stream = self._driver.stream(self._device.device_id)
        self._driver("cuMemcpyDtoDAsync", target, source, size, stream)

    # --- places ---------------------------------------------------------------------------------

    def _held(self, outside: Places) -> dict[GraphValue, int]:
        """Addresses of inputs, and of those outputs that kernels write."""
        known = dict(zip(self._graph.inputs, outside.inputs, strict=True))
        for value, address in zip(self._graph.outputs, outside.outputs, strict=True):
            known.setdefault(self._owners.get(value, value), address)
        return known

    def _slots(self, step: int, known: Addresses) -> bytes:
        weights = self._weights[step]
        return self._formats[step].pack(
            *(
                weights[position] if position in weights else self._address_of(value, known)
                for position, value in enumerate(self._calls[step].values)
            )
        )

    def _address_of(self, value: GraphValue, known: Addresses) -> int:
        owner = self._owners.get(value, value)
        if owner in self._places:
            return self._places[owner]
        if owner in self._graph.constants:
            return _address(self._constant(owner))
        return known[owner]

    def _allocate(self) -> tuple[NDArray, dict[GraphValue, int]]:
        graph, owners = self._graph, self._owners
        outside = {*graph.inputs, *graph.constants, *graph.outputs}
        outside |= {owners.get(value, value) for value in graph.outputs}
        lifetimes: dict[GraphValue, Lifetime] = {}
        for step, call in enumerate(self._calls):
            for value in call.values:
                owner = owners.get(value, value)
                if owner not in outside:
                    first = lifetimes[owner].first if owner in lifetimes else step
                    lifetimes[owner] = Lifetime(owner.type.bytes, first, step)
        plan = plan_memory(lifetimes)
        arena = ndarray.empty((max(plan.bytes, 1),), "uint8", self._device)
        base = _address(arena)
        return arena, {value: base + offset for value, offset in plan.offsets.items()}

    # --- weights --------------------------------------------------------------------------------

    def _weights_of(self, call: KernelCall) -> dict[int, int]:
        """Addresses of constants in the form that a kernel wants, by position."""
        found = {}
        for position, value in enumerate(call.group.inputs):
            owner = self._owners.get(value, value)
            if owner in self._graph.constants:
                found[position] = _address(self._packed(call, position, owner))
        return found

    def _packed(self, call: KernelCall, position: int, owner: GraphValue) -> NDArray:
        packer = call.kernel.packers.get(position)
        if packer is None:
            return self._constant(owner)
        result = ndarray.empty(packed_shape(packer), packer.signature[1].dtype, self._device)
        shape = call.group.inputs[position].type.extents
        packer(self._on_device(self._graph.constants[owner].reshape(shape)), result)
        self._packed_arrays.append(result)
        return result

    @cached_property
    def _packed_arrays(self) -> list[NDArray]:
        """Packed constants, which live as long as the program."""
        return []

    def _constant(self, value: GraphValue) -> NDArray:
        if value not in self._constants:
            self._constants[value] = self._on_device(self._graph.constants[value])
        return self._constants[value]

    def _on_device(self, array: Array) -> NDArray:
        return ndarray.array(np.ascontiguousarray(array), self._device)


def _rounded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _address(array: NDArray) -> int:
    memory = array.__tilewright_array__
    return int(memory.address)


def _is_compact(view: TensorView) -> bool:
    wanted = row_major_strides(view.shape)
    strides = zip(view.shape, view.strides, wanted, strict=True)
    return all(extent == 1 or given == want for extent, given, want in strides)
