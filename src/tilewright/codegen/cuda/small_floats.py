"""Structures for floats of 16 and 8 bits: their bits, and conversions from and to float.

The instructions for it came with several generations of GPUs. Where they are missing, bits are
moved instead; the results are the same, and the same as those of the C backend: what is too large
becomes an infinity, or a NaN in float8_e4m3, which has no infinities.
"""

from __future__ import annotations

from tilewright.ir import DType

_HALF_FROM = """
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
 """
_HALF_TO = """
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
 """

_BFLOAT16_FROM = """
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
 """
_BFLOAT16_FROM_BITS = """
    const unsigned word = __float_as_uint(x);
    bits = x != x ? 0x7fff : (word + 0x7fff + ((word >> 16) & 1)) >> 16;
 """
_BFLOAT16_TO = " return __uint_as_float((unsigned)bits << 16);"

# The instructions convert pairs, and turn what is too large into the largest number.
_FLOAT8_FROM = """
    unsigned short two;
    asm("cvt.rn.satfinite.{ptx}x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(x));
    bits = {fits} ? two : {sign} | {too_large};
 """
_FLOAT8_TO = """
    unsigned two;
    asm("cvt.rn.f16x2.{ptx}x2 %0, %1;" : "=r"(two) : "h"((unsigned short)bits));
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)two));
    return x;
 """
# Adding a power of two whose last place is that of the result rounds as the result needs it.
_FLOAT8_FROM_BITS = """
    const float size = fabsf(x), small = __uint_as_float({smallest}u);
    const unsigned last = max(__float_as_uint(size), __float_as_uint(small)) & 0x7f800000u;
    const float place = __uint_as_float(last + ({dropped}u << 23));
    const float rounded = __fsub_rn(__fadd_rn(size, place), place);
    const unsigned word = __float_as_uint(rounded);
    const unsigned normal = (word >> {dropped}) - ({bias}u << {mantissa});
    const unsigned tiny = (unsigned)(rounded * {tiny_scale}f);
    const unsigned coded = rounded < small ? tiny : normal;
    bits = {fits} ? {sign} | coded : {sign} | {too_large};
 """
_E5M2_TO_BITS = """
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)(bits << 8)));
    return x;
 """
# The same bits in half are smaller by the difference of the exponents' biases, 2**8.
_E4M3_TO_BITS = """
    float x;
    const unsigned short wide = (bits & 0x80) << 8 | (bits & 0x7f) << 7;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(wide));
    return (bits & 0x7f) == 0x7f ? __uint_as_float(0x7fffffffu) : x * 256.0f;
 """
_SIGN = "(__float_as_uint(x) >> 24 & 0x80)"
_E4M3 = {
    "ptx": "e4m3", "fits": "fabsf(x) <= 464.0f", "sign": _SIGN, "too_large": "0x7f",
    "smallest": "0x3c800000", "dropped": "20", "bias": "120", "mantissa": "3",
    "tiny_scale": "512.0",
}  # fmt: skip
_E5M2 = {
    "ptx": "e5m2", "fits": "fabsf(x) < 61440.0f", "sign": _SIGN,
    "too_large": "(x != x ? 0x7e : 0x7c)",
    "smallest": "0x38800000", "dropped": "21", "bias": "112", "mantissa": "2",
    "tiny_scale": "65536.0",
}  # fmt: skip

_STRUCT = """\
// The bits of a {dtype}, with conversions from and to float.
struct __align__({size}) {name} {{
  {storage} bits;
  {name}() = default;
  __device__ explicit {name}(float x) {{{encode} }}
  __device__ explicit operator float() const {{{decode} }}
}};
"""

_OPERATOR = """\
__device__ __forceinline__ {T} operator{sign}({T} a, {T} b) {{
  asm("{instruction} %0, %1, %2;" : "={letter}"(a.bits) : "{letter}"(a.bits), "{letter}"(b.bits));
  return a;
}}
"""
# Without a rounding mode the assembler may fuse a product and a sum.
_OPERATORS = {"+": "add", "-": "sub", "*": "mul"}

_HALF2 = """\
// Two halves in one register; one instruction computes with both.
struct __align__(4) half2 {
  unsigned bits;
  half2() = default;
  __device__ explicit half2(half x) { bits = x.bits | (unsigned)x.bits << 16; }
};
"""


def half_operators() -> str:
    """Arithmetic that GPUs have for single halves."""
    parts = [
        _OPERATOR.format(T="half", sign=sign, instruction=f"{name}.f16", letter="h")
        for sign, name in _OPERATORS.items()
    ]
    return "".join(parts)


def half2_struct() -> str:
    """Pairs of halves with their arithmetic."""
    parts = [
        _OPERATOR.format(T="half2", sign=sign, instruction=f"{name}.f16x2", letter="r")
        for sign, name in _OPERATORS.items()
    ]
    return _HALF2 + "".join(parts)


def _conversions(dtype: DType, arch: int) -> tuple[str, str]:
    """The bodies of the conversions from and to float."""
    if dtype == "float16":
        return _HALF_FROM, _HALF_TO
    if dtype == "bfloat16":
        return (_BFLOAT16_FROM if arch >= 80 else _BFLOAT16_FROM_BITS), _BFLOAT16_TO
    facts = _E4M3 if dtype == "float8_e4m3fn" else _E5M2
    if arch >= 89:
        return _FLOAT8_FROM.format(**facts), _FLOAT8_TO.format(**facts)
    decode = _E4M3_TO_BITS if dtype == "float8_e4m3fn" else _E5M2_TO_BITS
    return _FLOAT8_FROM_BITS.format(**facts), decode


def small_float_struct(dtype: DType, name: str, arch: int) -> str:
    """The structure of one type for GPUs of one generation."""
    encode, decode = _conversions(dtype, arch)
    storage = "unsigned short" if dtype.bits == 16 else "unsigned char"
    return _STRUCT.format(
        dtype=dtype, size=dtype.itemsize, name=name, storage=storage, encode=encode, decode=decode
    )
