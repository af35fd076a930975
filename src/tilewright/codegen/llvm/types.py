"""Spelling of data types in LLVM IR, in registers and in memory.

A float that is computed with in float32 is an integer of its bits everywhere. LLVM's own bfloat is
legal on some machines as a vector but never as a scalar, and a vector of 17 of them ends the
process inside the instruction selector.
"""

from __future__ import annotations

import math
import struct
from functools import cache

from tilewright.errors import CodegenError
from tilewright.ir import DType
from tilewright.ir.numpy_bridge import to_numpy

_FLOATS = {"float16": "half", "float32": "float", "float64": "double"}


def _element(dtype: DType) -> str:
    if dtype.is_float:
        return _FLOATS.get(dtype, f"i{dtype.bits}")
    if dtype.is_integral:
        return f"i{dtype.bits}"
    if dtype.is_bool:
        return "i1"
    if dtype.is_handle:
        return "ptr"
    raise CodegenError(f"LLVM has no type for dtype {dtype!s}")


def _vector(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


@cache
def value_type(dtype: DType) -> str:
    """The type of a value in a register."""
    return _vector(_element(dtype.element_of), dtype.lanes)


@cache
def intrinsic_type(dtype: DType) -> str:
    """The type that LLVM's intrinsics give a value."""
    element = "bfloat" if dtype.element_of == "bfloat16" else _element(dtype.element_of)
    return _vector(element, dtype.lanes)


@cache
def memory_type(dtype: DType) -> str:
    """The type of a value in memory: bool and 4-bit integers take a whole byte."""
    element = _element(dtype.element_of)
    return _vector("i8" if element in ("i1", "i4") else element, dtype.lanes)


@cache
def stride_type(dtype: DType) -> str:
    """A type whose size is the distance between neighbours in memory; vectors lie without gaps."""
    element = memory_type(dtype.element_of)
    return element if dtype.lanes == 1 else f"[{dtype.lanes} x {element}]"


def float_constant(value: float, dtype: DType) -> str:
    """A float constant as LLVM reads it exactly: bits in hexadecimal."""
    match dtype:
        case "float64" | "float32":
            if dtype == "float32":
                (value,) = struct.unpack("<f", _packed("<f", value))
            return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
        case "float16":
            return f"0xH{int.from_bytes(_packed('<e', value), 'little'):04X}"
        case "bfloat16" | "float8_e4m3fn" | "float8_e5m2":
            return str(int.from_bytes(to_numpy(dtype).type(value).tobytes(), "little"))
    raise CodegenError(f"no constant of dtype {dtype!s}")


def _packed(layout: str, value: float) -> bytes:
    """The bits of a number, which is infinite if it is too large."""
    try:
        return struct.pack(layout, value)
    except OverflowError:
        return struct.pack(layout, math.copysign(math.inf, value))
