"""The vector types that LLVM is known to compile, whatever the CPU and the operation.

LLVM ends the process that asks for a vector it has no rule for, and may take minutes over one of an
unusual length. What this table holds is compiled for many CPUs by tests/attack/test_vector_widths;
what it does not hold is compiled in a process of its own (`runtime/trial.py`).
"""

from __future__ import annotations

ELEMENT_BITS = {
    "i1": 1, "i4": 4, "i8": 8, "i16": 16, "i32": 32, "i64": 64,
    "half": 16, "float": 32, "double": 64,
}  # fmt: skip
# Only intrinsics of the CPU take these, and all their vectors are whole registers.
REGISTERS_ONLY = {"bfloat": (4, 8, 16, 32)}

SHORT = 16  # up to here any number of lanes is known, above only powers of two
LONG = 64  # up to here whatever the element is, above only vectors of few bytes
MAX_VECTOR_BYTES = 256  # four registers of the widest kind
KNOWN_IN_WORDS = f"vectors of 2 to {SHORT} lanes, or of a power of two up to {LONG}"


def is_known_vector(element: str, lanes: int) -> bool:
    """True for a vector that LLVM compiles; `element` is LLVM's name of its type."""
    if element in REGISTERS_ONLY:
        return lanes in REGISTERS_ONLY[element]
    bits = ELEMENT_BITS.get(element)
    return bits is not None and known_lanes(lanes, max(1, bits // 8)) == lanes


def known_lanes(lanes: int, element_bytes: int) -> int:
    """The most lanes, but no more than `lanes`, of a known vector of such elements."""
    if lanes <= SHORT:
        # LLVM 22 aborts on three 64-bit integers that become bytes, on Arm.
        return 2 if lanes == 3 and element_bytes == 8 else lanes
    power = 1 << (lanes.bit_length() - 1)
    return power if power * element_bytes <= MAX_VECTOR_BYTES else min(power, LONG)
