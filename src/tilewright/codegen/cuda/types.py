"""Spelling of types, constants and names in CUDA C++."""

from __future__ import annotations

import re
from typing import Final

from tilewright.codegen.c.calls import MATH_H
from tilewright.codegen.c.types import KEYWORDS, identifier
from tilewright.errors import CodegenError
from tilewright.ir import DType
from tilewright.target import Target

# Types of memory; those of floats below 32 bits are structures of small_floats.py.
_TYPES: Final[dict[str, str]] = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
    "float16": "half",
    "bfloat16": "bfloat16",
    "float8_e4m3fn": "float8_e4m3",
    "float8_e5m2": "float8_e5m2",
    "float32": "float",
    "float64": "double",
    "handle": "void*",
    "void": "void",
}
# Names that mean something in CUDA C++, besides those of C and of our own prelude.
_RESERVED: Final = (
    KEYWORDS
    | MATH_H
    | frozenset(
        """alignas alignof and asm catch char1 char2 char4 class compl const_cast constexpr decltype
    delete dim3 double1 double2 explicit export float1 float2 float3 float4 friend int1 int2 int3
    int4 long1 long2 mutable namespace new noexcept not nullptr operator or private protected public
    reinterpret_cast size_t static_assert static_cast template this thread_local throw try typeid
    typename uchar4 uint1 uint2 uint3 uint4 using virtual wchar_t xor threadIdx blockIdx blockDim
    gridDim warpSize min max half half2 bfloat16 vec pair floordiv floormod bits_as INFINITY NAN
    isnan isinf isfinite rsqrt exp10 prefetch lane_id shared_address fill_zero fill_fragment
    """.split()  # noqa: SIM905
    )
)


def cuda_type(dtype: DType) -> str:
    """The type of one lane; integers below 8 bits take a byte each."""
    kind = dtype.element_of
    if kind.is_integral and not kind.is_bool and kind.bits < 8:
        return _TYPES[f"{kind.code}8"]
    return _TYPES[kind]


def cuda_identifier(name: str) -> str:
    """`name` with everything replaced that CUDA C++ does not allow in a name."""
    spelled = identifier(name)
    return f"{spelled}_" if spelled in _RESERVED else spelled


def kernel_symbol(name: str) -> str:
    """The name that a kernel has in source and in machine code."""
    return cuda_identifier(name)


def integer_literal(value: int, dtype: DType) -> str:
    if dtype.is_bool:
        return "true" if value else "false"
    suffix = ("U" if dtype.is_uint else "") + ("LL" if dtype.bits == 64 else "")
    if dtype.is_int and value == -(2 ** (dtype.bits - 1)) and dtype.bits >= 32:
        return f"(-{-value - 1}{suffix} - 1)"  # C++ reads the digits before the sign
    return f"{value}{suffix}"


def arch_number(target: Target) -> int:
    """The compute capability of a target, e.g. 90 for `sm_90a`."""
    arch = str(target.attrs.get("arch", ""))
    found = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if found is None:
        raise CodegenError(f"target attribute 'arch' must look like 'sm_90a', got {arch!r}")
    return int(found[1])


def width_type(size: int, dtype: DType) -> str | None:
    """A built-in type of `size` bytes that is moved at once; None where there is none."""
    if dtype.element_of == "float32":
        return {4: "float", 8: "float2", 16: "float4"}.get(size)
    return {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}.get(
        size
    )
