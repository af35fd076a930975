"""A program in the memory of a GPU: its kernels, its constants, and places of values."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tilewright.errors import RuntimeFailure
from tilewright.model.program import ArrayPlace, ModelProgram, Packing, ValueInfo
from tilewright.native.cuda_driver import cuda_driver
from tilewright.native.cuda_memory import memory_pool
from tilewright.runtime import ndarray
from tilewright.runtime.binding import packers_of, shape_of
from tilewright.runtime.devices import Device
from tilewright.runtime.module import Module
from tilewright.runtime.ndarray import NDArray
from tilewright.runtime.tensor_view import Array, DeviceMemory

_ALIGNMENT = 256  # of outputs, as the driver's own


class Places(NamedTuple):
    """Addresses of inputs and outputs, in their order."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class GpuFrame:
    """Everything that runs of a program need on one GPU."""

    def __init__(
        self,
        program: ModelProgram,
        kernels: Sequence[Module],
        constants: Sequence[Array],
        device: Device,
    ) -> None:
        self._program = program
        self._kernels = kernels
        self._host_constants = constants
        self._device = device
        self._driver = cuda_driver()
        entries = [module[module.entry_name] for module in kernels]
        self._functions = [entries[step.kernel] for step in program.steps]
        self._formats = [struct.Struct(f"<{len(step.arguments)}Q") for step in program.steps]
        self._constants: dict[int, NDArray] = {}
        self._packed = [self._pack(packing) for packing in program.packings]
        self._arena = ndarray.empty((max(program.arena_bytes, 1),), "uint8", device)

    def run(self, outside: Places) -> None:
        """All steps, on the current stream."""
        for step in range(len(self._functions)):
            self.run_step(step, outside)
        program = self._program
        for place, info, target in zip(
            program.results, program.outputs, outside.outputs, strict=True
        ):
            source = self._address(place, outside)
            if source != target:
                self.copy(target, source, info.bytes)

    def run_step(self, step: int, outside: Places) -> None:
        """One kernel."""
        if status := self._functions[step]._run(self._slots(step, outside)):
            raise RuntimeFailure(f"{self._program.steps[step].name} failed with status {status}")

    def trace(self, outside: Places) -> Iterator[tuple[list[Array], list[Array]]]:
        """Run step by step: copies of what each reads, constants as in the graph, and makes."""
        for number, step in enumerate(self._program.steps):
            held = list(zip(step.arguments, step.values, strict=True))
            read = [self._on_host(*each, outside) for each in held[: step.inputs]]
            self.run_step(number, outside)
            yield read, [self._on_host(*each, outside) for each in held[step.inputs :]]

    def nanoseconds(self, step: int, outside: Places, number: int) -> int:
        """The time of one kernel, of several runs in a row."""
        slots = self._slots(step, outside)
        return (
            self._device.api.time(self._functions[step]._run, slots, number).nanoseconds // number
        )

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy on the GPU, on the current stream."""
        stream = self._driver.stream(self._device.device_id)
        self._driver("cuMemcpyDtoDAsync", target, source, size, stream)

    def empty(self, infos: Sequence[ValueInfo]) -> tuple[NDArray, ...]:
        """Arrays for values, in one block, so that addresses come again when all have gone."""
        starts = [*itertools.accumulate((_rounded(info.bytes) for info in infos), initial=0)]
        block = memory_pool(self._device.device_id).allocate(starts[-1])
        return tuple(
            NDArray(self._memory(info, block.address + at, block), self._device)
            for info, at in zip(infos, starts, strict=False)
        )

    # --- places ---------------------------------------------------------------------------------

    def _slots(self, step: int, outside: Places) -> bytes:
        places = self._program.steps[step].arguments
        return self._formats[step].pack(*(self._address(place, outside) for place in places))

    def _address(self, place: ArrayPlace, outside: Places) -> int:
        match place.memory:
            case "arena":
                return address_of(self._arena) + place.index
            case "constant":
                return address_of(self._constant(place.index))
            case "packed":
                return address_of(self._packed[place.index])
            case "input":
                return outside.inputs[place.index]
            case "output":
                return outside.outputs[place.index]

    def _memory(self, info: ValueInfo, address: int, owner: object) -> DeviceMemory:
        return DeviceMemory(self._device, info.shape, info.element_type, address, owner)

    def _on_host(self, place: ArrayPlace, info: ValueInfo, outside: Places) -> Array:
        constant = place.index if place.memory == "constant" else None
        if place.memory == "packed":
            constant = self._program.packings[place.index].constant
        if constant is not None:
            return self._host_constants[constant].reshape(info.shape)
        memory = self._memory(info, self._address(place, outside), self)
        copy: Array = self._device.api.copy_out(memory)
        return copy

    # --- constants ------------------------------------------------------------------------------

    def _constant(self, number: int) -> NDArray:
        if number not in self._constants:
            self._constants[number] = self._on_device(self._host_constants[number])
        return self._constants[number]

    def _pack(self, packing: Packing) -> NDArray:
        packer = packers_of(self._kernels[packing.kernel])[packing.position]
        shape, packed = map(shape_of, packer.signature)
        result = ndarray.empty(packed, packer.signature[1].dtype, self._device)
        packer(self._on_device(self._host_constants[packing.constant].reshape(shape)), result)
        return result

    def _on_device(self, array: Array) -> NDArray:
        return ndarray.array(np.ascontiguousarray(array), self._device)


def address_of(array: NDArray) -> int:
    """Where an array begins in the memory of its GPU."""
    return int(array.__tilewright_array__.address)


def _rounded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
