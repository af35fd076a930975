"""Element types of vector math and the bit layout of the two formats it computes in."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.errors import CodegenError


@dataclass(frozen=True)
class FloatFormat:
    """An IEEE binary format in which formulas are evaluated."""

    llvm: str
    bits: int
    mantissa_bits: int

    @property
    def exponent_bias(self) -> int:
        return (1 << (self.bits - self.mantissa_bits - 2)) - 1

    @property
    def min_normal(self) -> float:
        return 2.0 ** (1 - self.exponent_bias)

    @property
    def rounding_magic(self) -> float:
        """1.5 * 2^mantissa_bits: adding it leaves the nearest integer in the low bits."""
        return 1.5 * 2.0**self.mantissa_bits

    def round(self, value: float) -> float:
        """The nearest number of this format."""
        if self.bits == 64:
            return value
        (rounded,) = struct.unpack("<f", struct.pack("<f", value))
        return float(rounded)

    def split(self, value: float, rest: float, head_bits: int) -> tuple[float, float]:
        """`value + rest` as a head of `head_bits` significant bits and a rounded tail.

        Products of the head with a small integer are exact, fused or not.
        """
        unit = 2.0 ** (math.frexp(value)[1] - head_bits)
        head = round(value / unit) * unit
        return head, self.round((value - head) + rest)

    def bit_pattern(self, value: float) -> int:
        """The bits of `value` in this format, as an unsigned integer."""
        pack, unpack = ("<d", "<Q") if self.bits == 64 else ("<f", "<I")
        (pattern,) = struct.unpack(unpack, struct.pack(pack, value))
        return int(pattern)


F32 = FloatFormat("float", 32, 23)
F64 = FloatFormat("double", 64, 52)


@dataclass(frozen=True)
class ElementType:
    """An element type of the interface: how it is spelled and the format it computes in."""

    mangled: str
    llvm: str
    compute: FloatFormat


ELEMENT_TYPES: Mapping[str, ElementType] = MappingProxyType(
    {
        "float16": ElementType("f16", "half", F32),
        "bfloat16": ElementType("bf16", "i16", F32),
        "float32": ElementType("f32", "float", F32),
        "float64": ElementType("f64", "double", F64),
    }
)


def element_type(elem: str) -> ElementType:
    """The element type called `elem`."""
    found = ELEMENT_TYPES.get(elem)
    if found is None:
        raise CodegenError(
            f"vector math has no element type {elem!r}; expected one of {', '.join(ELEMENT_TYPES)}"
        )
    return found


def vector_of(scalar: str, lanes: int) -> str:
    """The LLVM type of `lanes` values of type `scalar`; one lane is a plain scalar."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"
