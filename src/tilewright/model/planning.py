"""From a graph and its calls to a program: memory is planned, constants are packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from tilewright.graph.external import is_external
from tilewright.graph.graph import Array, Graph, GraphValue
from tilewright.graph.views import is_view
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.model.external import ExternalCall
from tilewright.model.kernels import KernelCall, ModelKernel
from tilewright.model.memory import Lifetime, plan_memory
from tilewright.model.program import (
    EXTERNAL,
    ArrayPlace,
    ExternalProgram,
    ModelProgram,
    ModelStep,
    Packing,
    ValueInfo,
)
from tilewright.runtime.compact import compact_copy
from tilewright.runtime.cpu_device import ALIGNMENT, aligned_memory
from tilewright.runtime.tensor_view import address_of
from tilewright.schedule.analysis import flop_of

ModelCall: TypeAlias = KernelCall | ExternalCall
CPU = "cpu"


@dataclass
class Plan:
    """A program, the kernels that its steps name by number, and its constants."""

    program: ModelProgram
    kernels: list[ModelKernel]
    constants: list[Array]
    kept: dict[GraphValue, Array]  # constants as the graph has them


def plan_program(graph: Graph, calls: Sequence[ModelCall]) -> Plan:
    """The program of a graph."""
    return _Planner(graph, calls, owners_of(graph)).plan()


@dataclass
class _Planner:
    graph: Graph
    calls: Sequence[ModelCall]
    owners: dict[GraphValue, GraphValue]
    kernels: dict[ModelKernel, int] = field(default_factory=dict)
    constants: list[Array] = field(default_factory=list)
    known: dict[tuple[GraphValue, ModelKernel | None, int], ArrayPlace] = field(
        default_factory=dict
    )
    packings: list[Packing] = field(default_factory=list)

    def plan(self) -> Plan:
        self.places = self._outside()
        arena = plan_memory(self._lifetimes())
        self.places |= {value: ArrayPlace("arena", at) for value, at in arena.offsets.items()}
        steps = tuple(map(self._step, self.calls))
        program = ModelProgram(
            self.graph.name,
            tuple(ValueInfo.of(value, name) for name, value in self.graph.named_inputs),
            tuple(ValueInfo.of(value, name) for name, value in self.graph.named_outputs),
            tuple(map(self._result, self.graph.outputs)),
            steps,
            arena.bytes,
            next((kernel.module.info.target for kernel in self.kernels), ""),
            tuple(self.packings),
        )
        return Plan(program, list(self.kernels), self.constants, self._plain_constants())

    def _plain_constants(self) -> dict[GraphValue, Array]:
        """Constants that steps read as they are, and those that no step reads."""
        plain = {
            value: self.constants[place.index]
            for (value, kernel, _), place in self.known.items()
            if kernel is None
        }
        read = {value for value, _, _ in self.known}
        return plain | {v: array for v, array in self.graph.constants.items() if v not in read}

    def _owner(self, value: GraphValue) -> GraphValue:
        return self.owners.get(value, value)

    def _outside(self) -> dict[GraphValue, ArrayPlace]:
        """Inputs and outputs, which callers own; the first output of a value has its memory."""
        places = {value: ArrayPlace("input", n) for n, value in enumerate(self.graph.inputs)}
        for n, value in enumerate(map(self._owner, self.graph.outputs)):
            if value not in self.graph.constants:
                places.setdefault(value, ArrayPlace("output", n))
        return places

    def _lifetimes(self) -> dict[GraphValue, Lifetime]:
        lifetimes: dict[GraphValue, Lifetime] = {}
        for step, call in enumerate(self.calls):
            for value in map(self._owner, call.values):
                if value not in self.places and value not in self.graph.constants:
                    first = lifetimes[value].first if value in lifetimes else step
                    lifetimes[value] = Lifetime(value.type.bytes, first, step)
        return lifetimes

    def _step(self, call: ModelCall) -> ModelStep:
        values = tuple(map(ValueInfo.of, call.values))
        if isinstance(call, ExternalCall):
            places = tuple(self._place(value) for value in call.values)
            outside = self._external_program(call)
            return ModelStep(
                call.name, EXTERNAL, places, values, len(call.inputs), external=outside
            )
        number = self.kernels.setdefault(call.kernel, len(self.kernels))
        places = tuple(
            self._place(value, call.kernel, position) for position, value in enumerate(call.values)
        )
        nodes = call.group.nodes
        sources = tuple(dict.fromkeys(node.source for node in nodes if node.source))
        operators = tuple(node.op for node in nodes)
        reads, flop = len(call.group.inputs), flop_of(call.kernel.func)
        return ModelStep(call.group.name, number, places, values, reads, flop, sources, operators)

    def _external_program(self, call: ExternalCall) -> ExternalProgram | None:
        """What a library runs, of nodes that say so."""
        node = next((n for n in self.graph.nodes if n.outputs == call.outputs), None)
        if node is None or not is_external(node):
            return None
        return ExternalProgram(
            node.attrs["backend"],
            node.source or node.outputs[0].name,
            node.attrs["program"],
            tuple(map(ValueInfo.of, node.operands)),
            tuple(
                (position, self._place(value).index)
                for position, value in enumerate(node.operands)
                if value in self.graph.constants
            ),
        )

    def _result(self, value: GraphValue) -> ArrayPlace:
        return self._place(value)

    def _place(
        self, value: GraphValue, kernel: ModelKernel | None = None, position: int = 0
    ) -> ArrayPlace:
        owner = self._owner(value)
        if owner not in self.graph.constants:
            return self.places[owner]
        packs = kernel is not None and kernel.packs(position)
        key = (owner, kernel if packs else None, position if packs else 0)
        if key not in self.known and packs and kernel is not None:
            self.known[key] = self._packed_place(value, kernel, position)
        elif key not in self.known:
            self.known[key] = self._kept(_aligned(np.asarray(self.graph.constants[owner])))
        return self.known[key]

    def _packed_place(self, value: GraphValue, kernel: ModelKernel, position: int) -> ArrayPlace:
        """A constant in a kernel's own layout; on other devices than CPUs the device packs it."""
        if kernel.module.info.device == CPU:
            array = _aligned(np.asarray(self.graph.constants[self._owner(value)]))
            return self._kept(_packed(kernel, position, array.reshape(value.type.extents)))
        plain = self._place(value)
        self.packings.append(Packing(self.kernels[kernel], position, plain.index))
        return ArrayPlace("packed", len(self.packings) - 1)

    def _kept(self, array: Array) -> ArrayPlace:
        self.constants.append(array)
        return ArrayPlace("constant", len(self.constants) - 1)


def _packed(kernel: ModelKernel, position: int, array: Array) -> Array:
    packer = kernel.packers[position]
    spec = packer.signature[1]
    # Packers leave padding as it is, and files should not depend on chance.
    result = aligned_memory(tuple(map(int, spec.shape)), to_numpy(spec.dtype), zeros=True)
    packer(array, result)
    return result


def owners_of(graph: Graph) -> dict[GraphValue, GraphValue]:
    """The value whose memory a view shows."""
    owners: dict[GraphValue, GraphValue] = {}
    for node in graph.nodes:
        if is_view(node):
            source = node.operands[0]
            owners[node.outputs[0]] = owners.get(source, source)
    return owners


def _aligned(array: Array) -> Array:
    """The array itself, or a compact copy that begins with a cache line."""
    if array.flags.c_contiguous and address_of(array) % ALIGNMENT == 0:
        return array
    return compact_copy(array)
