"""Parts of a VTA: shapes of its matrix instruction, scratchpads, its port to memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.errors import TargetError
from tilewright.vta.isa import MemoryKind

UOP_BYTES = 4
ACC_BYTES = 4  # of one number in the accumulator
# Micro-operations hold 11 bits for rows of results and operands, 10 bits for blocks of weights.
_MOST_ROWS = {
    MemoryKind.INP: 1 << 11,
    MemoryKind.WGT: 1 << 10,
    MemoryKind.ACC: 1 << 11,
    MemoryKind.UOP: 1 << 13,
}
_BUFFERS = {
    MemoryKind.UOP: "uop-buffer-bytes",
    MemoryKind.INP: "inp-buffer-bytes",
    MemoryKind.WGT: "wgt-buffer-bytes",
    MemoryKind.ACC: "acc-buffer-bytes",
}


@dataclass(frozen=True)
class Configuration:
    """One VTA; elements are what an instruction addresses: rows of numbers, blocks of weights."""

    batch: int = 1
    block_in: int = 16
    block_out: int = 16
    uop_buffer_bytes: int = 32 << 10
    inp_buffer_bytes: int = 32 << 10
    wgt_buffer_bytes: int = 256 << 10
    acc_buffer_bytes: int = 128 << 10
    bus_bytes: int = 8
    row_latency_cycles: int = 20
    clock_mhz: int = 100

    @staticmethod
    def of(attrs: Mapping[str, object]) -> Configuration:
        """The VTA that the attributes of a target describe."""
        known = {name.replace("_", "-"): name for name in Configuration.__dataclass_fields__}
        given = {known[name]: int(str(value)) for name, value in attrs.items() if name in known}
        made = Configuration(**given)
        made.check()
        return made

    def check(self) -> None:
        """Refuse what instructions cannot address."""
        for name, value in vars(self).items():
            least = 0 if name == "row_latency_cycles" else 1
            if value < least:
                raise TargetError(
                    f"vta: {name.replace('_', '-')} must be at least {least}, got {value}"
                )
        for memory, most in _MOST_ROWS.items():
            if not 1 <= self.depth(memory) <= most:
                raise TargetError(
                    f"vta: {_BUFFERS[memory]} must hold 1 to {most} elements of "
                    f"{self.element_bytes[memory]} bytes, got {self.buffer_bytes(memory)} bytes"
                )

    @property
    def lanes(self) -> Mapping[MemoryKind, int]:
        """Numbers in an element of each memory."""
        rows, out = self.batch * self.block_in, self.batch * self.block_out
        return MappingProxyType(
            {
                MemoryKind.UOP: 1,
                MemoryKind.WGT: self.block_in * self.block_out,
                MemoryKind.INP: rows,
                MemoryKind.ACC: out,
                MemoryKind.OUT: out,
                MemoryKind.ACC8: out,
            }
        )

    @property
    def element_bytes(self) -> Mapping[MemoryKind, int]:
        """Bytes of an element of each memory, as it lies in the main memory."""
        wide = {MemoryKind.UOP: UOP_BYTES, MemoryKind.ACC: ACC_BYTES}
        return MappingProxyType({m: n * wide.get(m, 1) for m, n in self.lanes.items()})

    def buffer_bytes(self, memory: MemoryKind) -> int:
        """Bytes of a scratchpad."""
        sizes = {
            MemoryKind.UOP: self.uop_buffer_bytes,
            MemoryKind.INP: self.inp_buffer_bytes,
            MemoryKind.WGT: self.wgt_buffer_bytes,
            MemoryKind.ACC: self.acc_buffer_bytes,
        }
        return sizes[memory]

    def depth(self, memory: MemoryKind) -> int:
        """Elements that a scratchpad holds; OUT mirrors the accumulator."""
        held = memory if memory in _BUFFERS else MemoryKind.ACC
        return self.buffer_bytes(held) // self.element_bytes[held]

    def nanoseconds(self, cycles: int) -> int:
        """How long `cycles` cycles take."""
        return round(cycles * 1000 / self.clock_mhz)
