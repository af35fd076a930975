"""Places of arrays in main memory and of buffers in scratchpads.

A buffer has two places in a scratchpad where they fit, so that modules can overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright import ir
from tilewright.codegen.program_facts import constant_bytes
from tilewright.codegen.vta.program import PlacedTensor
from tilewright.errors import CodegenError
from tilewright.lowering.host_abi import signature_of
from tilewright.lowering.storage_rewrite import scope_of
from tilewright.vta.configuration import Configuration
from tilewright.vta.isa import MemoryKind
from tilewright.vta.names import SCOPES

NUMBERS = {MemoryKind.INP: "int8", MemoryKind.WGT: "int8", MemoryKind.ACC: "int32"}
ALIGNMENT = 256  # bytes: the largest element


def aligned(address: int) -> int:
    """The first address from one on that any element may have."""
    return -(-address // ALIGNMENT) * ALIGNMENT


def placed_tensors(func: ir.PrimFunc) -> Mapping[ir.Var, PlacedTensor]:
    """Places in main memory for arguments and buffers outside of scratchpads."""
    made: dict[ir.Var, PlacedTensor] = {}
    at = 0
    specs = signature_of(func)
    if len(specs) != len(func.params) or any(spec.kind != "buffer" for spec in specs):
        raise CodegenError(
            f"vta: function {func.name!r} takes numbers, or arrays of unknown sizes; instructions "
            "need sizes that are known"
        )
    for position, (param, spec) in enumerate(zip(func.params, specs, strict=True)):
        size = math.prod(map(int, spec.shape)) * ir.DType(spec.dtype).itemsize
        planes = 4 if spec.access == "w" and spec.dtype == "int32" else 1
        made[param] = PlacedTensor(spec.name, at, size, position, "w" in spec.access, planes)
        at = aligned(at + size)
    for each in ir.nodes_of(func.body, ir.Allocate):
        if scope_of(each.buffer_var) == "global":
            size = bytes_of(each)
            made[each.buffer_var] = PlacedTensor(each.buffer_var.name, at, size)
            at = aligned(at + size)
    return made


def bytes_of(allocation: ir.Allocate) -> int:
    """How much is allocated."""
    size = constant_bytes(allocation)
    if size is None:
        raise CodegenError(
            f"vta: the size of {allocation.buffer_var.name} is not known before the program runs"
        )
    return size


@dataclass
class ScratchpadPlace:
    """A buffer of a scratchpad; each time that it is allocated it moves on to its next copy."""

    memory: MemoryKind
    first: int  # in elements
    elements: int
    copies: int = 1
    turn: int = -1

    @property
    def start(self) -> int:
        """The first element of the copy in use."""
        return self.first + self.turn % self.copies * self.elements


def places_of(body: ir.Stmt, configuration: Configuration) -> Mapping[ir.Var, ScratchpadPlace]:
    """Places for all buffers in scratchpads."""
    made: dict[ir.Var, ScratchpadPlace] = {}
    groups: dict[MemoryKind, list[ir.Allocate]] = {memory: [] for memory in SCOPES.values()}
    for allocation in ir.nodes_of(body, ir.Allocate):
        if memory := SCOPES.get(scope_of(allocation.buffer_var)):
            groups[memory].append(allocation)
    for memory, allocations in groups.items():
        made.update(_placed(memory, allocations, configuration))
    return made


def _placed(
    memory: MemoryKind, allocations: list[ir.Allocate], configuration: Configuration
) -> Iterator[tuple[ir.Var, ScratchpadPlace]]:
    lanes, depth = configuration.lanes[memory], configuration.depth(memory)
    sizes = [-(-(bytes_of(each) // each.dtype.itemsize) // lanes) for each in allocations]
    for each in allocations:
        if str(each.dtype) != NUMBERS[memory]:
            raise CodegenError(
                f"vta: {each.buffer_var.name} is in the {memory.name} scratchpad, which holds "
                f"{NUMBERS[memory]}, but it is {each.dtype}"
            )
    if sum(sizes) > depth:
        size = configuration.element_bytes[memory]
        each_of = (
            f"{a.buffer_var.name} {n * size}" for a, n in zip(allocations, sizes, strict=True)
        )
        raise CodegenError(
            f"vta: the {memory.name} scratchpad has {depth * size} bytes, but the program needs "
            f"{sum(sizes) * size} ({', '.join(each_of)}); make its tiles smaller"
        )
    at, spare = 0, depth - sum(sizes)
    for allocation, size in zip(allocations, sizes, strict=True):
        copies = 2 if size <= spare else 1
        spare -= size * (copies - 1)
        yield allocation.buffer_var, ScratchpadPlace(memory, at, size, copies)
        at += size * copies
