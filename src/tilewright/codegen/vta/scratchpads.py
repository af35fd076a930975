"""Places of buffers in scratchpads: two for each where they fit, so that modules can overlap."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright import ir
from tilewright.errors import CodegenError
from tilewright.ir.expr import PointerType
from tilewright.vta.configuration import Configuration
from tilewright.vta.isa import MemoryKind
from tilewright.vta.names import SCOPES

NUMBERS = {MemoryKind.INP: "int8", MemoryKind.WGT: "int8", MemoryKind.ACC: "int32"}


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


def scope_of(allocation: ir.Allocate) -> str:
    """The scope of what is allocated."""
    kind = allocation.buffer_var.type_annotation
    return kind.storage_scope if isinstance(kind, PointerType) else ""


def numbers_of(allocation: ir.Allocate) -> int:
    """How many numbers are allocated."""
    extents = [e.value for e in allocation.extents if isinstance(e, ir.IntImm)]
    if len(extents) != len(allocation.extents):
        raise CodegenError(
            f"vta: the size of {allocation.buffer_var.name} is not known before the program runs"
        )
    return math.prod(extents)


def places_of(body: ir.Stmt, configuration: Configuration) -> Mapping[ir.Var, ScratchpadPlace]:
    """Places for all buffers in scratchpads."""
    made: dict[ir.Var, ScratchpadPlace] = {}
    groups: dict[MemoryKind, list[ir.Allocate]] = {memory: [] for memory in SCOPES.values()}
    for allocation in ir.nodes_of(body, ir.Allocate):
        if memory := SCOPES.get(scope_of(allocation)):
            groups[memory].append(allocation)
    for memory, allocations in groups.items():
        made.update(_placed(memory, allocations, configuration))
    return made


def _placed(
    memory: MemoryKind, allocations: list[ir.Allocate], configuration: Configuration
) -> Iterator[tuple[ir.Var, ScratchpadPlace]]:
    lanes, depth = configuration.lanes[memory], configuration.depth(memory)
    sizes = [-(-numbers_of(each) // lanes) for each in allocations]
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
