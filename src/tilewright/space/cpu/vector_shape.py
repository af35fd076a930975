"""The vector registers of a CPU: how wide they are, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.target import Target

_MANY_REGISTERS = frozenset({"avx512f", "neon", "sve"})  # architectures with 32 of them


@dataclass(frozen=True)
class VectorShape:
    """Bits of a register, and the number of registers."""

    bits: int
    registers: int

    @staticmethod
    def of(target: Target) -> VectorShape:
        """The registers of a target."""
        many = bool(_MANY_REGISTERS & target.features) or "aarch64" in target.cpu.triple
        return VectorShape(target.vector_bits, 32 if many else 16)

    @staticmethod
    def default() -> VectorShape:
        """What every x86-64 has."""
        return VectorShape(128, 16)

    def lanes(self, element_bits: int) -> int:
        """Elements in a register."""
        return max(1, self.bits // max(8, element_bits))  # a bool takes a byte

    def tile_rows(self, vectors: int) -> int:
        """The most rows of a tile so wide: beside it, a row of one operand and one more fit in."""
        return max(1, (self.registers - vectors - 1) // vectors)
