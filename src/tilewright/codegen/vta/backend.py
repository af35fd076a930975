"""The backend for targets of the kind `vta`: instructions, which a simulator runs and times."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tilewright.codegen.artifact import Artifact, Library
from tilewright.codegen.base import Backend, GeneratedSource
from tilewright.codegen.registry import register_backend
from tilewright.codegen.vta.generator import generate_program
from tilewright.codegen.vta.program import (
    PlacedTensor,
    VtaProgram,
    from_assembly,
    from_bytes,
    to_assembly,
    to_bytes,
)
from tilewright.errors import TargetError
from tilewright.ir import IRModule
from tilewright.lowering import Pass, PassContext
from tilewright.lowering.host_abi import HostABI
from tilewright.lowering.pipeline import blocks_to_buffers, buffers_to_memory
from tilewright.target import Target
from tilewright.vta.configuration import Configuration
from tilewright.vta.cycles import CycleReport, simulate_cycles
from tilewright.vta.machine import Simulator
from tilewright.vta.names import BLOCK


class SimulatedFunction:
    """A function that runs on a simulated VTA, and knows how many cycles it takes there."""

    def __init__(self, program: VtaProgram) -> None:
        self.program = program

    @functools.cached_property
    def report(self) -> CycleReport:
        """Cycles, and what they are spent on."""
        return simulate_cycles(self.program.instructions, self.program.configuration)

    @property
    def nanoseconds(self) -> int:
        """How long a run takes on the simulated machine."""
        return self.program.configuration.nanoseconds(self.report.cycles)

    def __call__(self, slots: bytes) -> int:
        addresses = struct.unpack(f"<{len(slots) // 8}q", slots)
        memory = np.zeros(self.program.memory_bytes, np.uint8)
        arguments = [each for each in self.program.tensors if each.argument >= 0]
        for tensor in arguments:
            given = _argument(addresses, tensor).reshape(-1, tensor.planes)
            _region(memory, tensor)[:] = given.T.ravel()
        memory[self.program.uop_address :] = np.array(self.program.uops, "<u4").view(np.uint8)
        machine = Simulator(self.program.configuration, memory)
        # In the order of the clock: a missing token shows in results.
        machine.run(self.program.instructions[number] for number in self.report.order)
        for tensor in arguments:
            if tensor.written:
                planes = _region(memory, tensor).reshape(tensor.planes, -1)
                _argument(addresses, tensor)[:] = planes.T.ravel()
        return 0


def _region(memory: npt.NDArray[np.uint8], tensor: PlacedTensor) -> npt.NDArray[np.uint8]:
    return memory[tensor.address : tensor.address + tensor.size]


def _argument(addresses: tuple[int, ...], tensor: PlacedTensor) -> npt.NDArray[np.uint8]:
    held = (ctypes.c_uint8 * tensor.size).from_address(addresses[tensor.argument])
    return np.ctypeslib.as_array(held)


class SimulatedLibrary:
    """Programs that were loaded."""

    def __init__(self, programs: Mapping[str, VtaProgram]) -> None:
        self._functions = {name: SimulatedFunction(each) for name, each in programs.items()}

    def kernel(self, name: str) -> SimulatedFunction:
        """A function on slots."""
        return self._functions[name]


@register_backend
class VtaBackend(Backend):
    """From TensorIR whose blocks are instructions of VTA to programs for its simulator."""

    kind: ClassVar[str] = "vta"
    text_files: ClassVar[Mapping[str, str]] = {".vta": "vta"}

    def passes(self, context: PassContext, target: Target | None) -> list[Pass]:
        """Only what makes memory flat: loops become instructions, or run in the generator."""
        return [*blocks_to_buffers(context), *buffers_to_memory(context), HostABI()]

    def generate(self, lowered: IRModule, target: Target) -> GeneratedSource:
        """Instructions as text."""
        configuration = configuration_of(target)
        functions = lowered.functions.items()
        programs = [generate_program(name, func, configuration) for name, func in functions]
        return GeneratedSource(to_assembly(programs))

    def compile(
        self, source: GeneratedSource, target: Target, *, may_abort: bool = False
    ) -> Artifact:
        """Instructions as bits."""
        programs = list(from_assembly(source.text))
        return Artifact(self.kind, to_bytes(programs), tuple(each.name for each in programs))

    def load(self, artifact: Artifact, imports: Mapping[str, int]) -> Library:
        """Programs that the simulator runs."""
        return SimulatedLibrary({each.name: each for each in from_bytes(artifact.data)})

    def resources(self, artifact: Artifact) -> Mapping[str, Mapping[str, int]]:
        """Cycles, operations and bytes of each function."""
        return {each.name: _resources(each) for each in from_bytes(artifact.data)}


def _resources(program: VtaProgram) -> Mapping[str, int]:
    report = simulate_cycles(program.instructions, program.configuration)
    return {
        "cycles": report.cycles,
        "least_cycles": report.bound,
        "instructions": len(program.instructions),
        "gemm_operations": report.gemm_operations,
        "alu_operations": report.alu_operations,
        **{f"{memory}_bytes": size for memory, size in report.moved_bytes.items()},
    }


def configuration_of(target: Target) -> Configuration:
    """The VTA that a target describes, if there are instructions for it."""
    made = Configuration.of(target.attrs)
    shape = made.batch, made.block_in, made.block_out
    if shape != (1, BLOCK, BLOCK):
        raise TargetError(
            f"vta: programs are compiled for matrix instructions of 1x{BLOCK}x{BLOCK} (batch, "
            f"block-in, block-out), the target has {'x'.join(map(str, shape))}"
        )
    return made
