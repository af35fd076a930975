"""Dot products of x86: TVM's two, and those of other extensions, other signs, and bfloat16.

Each works on one vector register of accumulators and adds a few products to each lane. Names say
`dot_{lanes}x{depth}_{extension}`; int8 forms take A unsigned and B signed unless `_s8s8` or `_u8u8`
says otherwise, and `_local` means accumulators in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tilewright.intrin import dot_product_common as dots
from tilewright.intrin.x86_tvm import avx512_16x4, vnni_16x4
from tilewright.ir import Broadcast, PrimExpr, PrimFunc, const, intrinsics
from tilewright.ir.tensor_intrin import TensorIntrin, ValueRanges

VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"
AVX512_DOT_16x4_INTRIN = "dot_16x4_avx512"
BF16_DOT_16x2_INTRIN = "dot_16x2_bf16"

# `pmaddubsw` adds two products in 16 bits and saturates: for larger values of A it is not exact.
SATURATING_RANGE = {"A": (0, 128)}
_SIGN_BITS = -0x7F7F7F80  # 0x80808080: the highest bit of each of four bytes, as an int32

_VPDPBUSD = {16: "llvm.x86.avx512.vpdpbusd.512", 8: "llvm.x86.avx512.vpdpbusd.256"}
_PMADDUBSW = {16: "llvm.x86.avx512.pmaddubs.w.512", 8: "llvm.x86.avx2.pmadd.ub.sw"}
_PMADDWD = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd"}


def _filled(value: int, dtype: str, lanes: int) -> PrimExpr:
    return Broadcast(const(value, dtype), lanes)


def vnni(form: dots.DotForm, acc: PrimExpr, a_word: PrimExpr, b_vector: PrimExpr) -> PrimExpr:
    """`vpdpbusd` multiplies unsigned by signed bytes; other signs are shifted by 128.

    With a' = a + 128, sum(a * b) = sum(a' * b) - 128 * sum(b), exactly so in wrapping arithmetic.
    The instruction itself computes the sum to subtract, which depends on one operand only and thus
    is computed once for all accumulators that share the operand.
    """
    lanes, words = form.lanes, f"int32x{form.lanes}"
    zeros, signs = _filled(0, "int32", lanes), _filled(_SIGN_BITS, "int32", lanes)
    a, b = Broadcast(a_word, lanes), intrinsics.reinterpret(words, b_vector)

    def dot(acc: PrimExpr, unsigned: PrimExpr, signed: PrimExpr) -> PrimExpr:
        return intrinsics.call_llvm_pure_intrin(words, _VPDPBUSD[lanes], acc, unsigned, signed)

    match form.a_dtype, form.b_dtype:
        case "int8", "int8":
            return dot(acc - dot(zeros, signs, b), intrinsics.bitwise_xor(a, signs), b)
        case "uint8", "uint8":
            return dot(acc - dot(zeros, a, signs), a, intrinsics.bitwise_xor(b, signs))
        case "int8", "uint8":
            return dot(acc, b, a)
    return dot(acc, a, b)


def exact(form: dots.DotForm, acc: PrimExpr, a_word: PrimExpr, b_vector: PrimExpr) -> PrimExpr:
    """Bytes widened to 16 bits, then `pmaddwd`: exact for all values and all signs.

    Bytes with even and with odd numbers are widened within their lane, so nothing moves across
    lanes and each product lands in the lane of its accumulator.
    """
    lanes, words = form.lanes, f"int32x{form.lanes}"

    def halves(bits: PrimExpr, is_signed: bool) -> tuple[PrimExpr, PrimExpr]:
        if is_signed:
            short = intrinsics.reinterpret(f"int16x{2 * lanes}", bits)
            eight = _filled(8, "int16", 2 * lanes)
            return intrinsics.shift_right(
                intrinsics.shift_left(short, eight), eight
            ), intrinsics.shift_right(short, eight)
        short = intrinsics.reinterpret(f"uint16x{2 * lanes}", bits)
        low = _filled(0xFF, "uint16", 2 * lanes)
        return intrinsics.bitwise_and(short, low), intrinsics.shift_right(
            short, _filled(8, "uint16", 2 * lanes)
        )

    a = halves(Broadcast(a_word, lanes), form.a_dtype == "int8")
    b = halves(b_vector, form.b_dtype == "int8")
    for left, right in zip(a, b, strict=True):
        acc = acc + intrinsics.call_llvm_pure_intrin(words, _PMADDWD[lanes], left, right)
    return acc


def saturating(form: dots.DotForm, acc: PrimExpr, a_word: PrimExpr, b_vector: PrimExpr) -> PrimExpr:
    """`pmaddubsw` adds pairs of products in 16 bits, where large ones saturate."""
    lanes = form.lanes
    a = intrinsics.reinterpret(f"uint8x{4 * lanes}", Broadcast(a_word, lanes))
    pairs = intrinsics.call_llvm_pure_intrin(f"int16x{2 * lanes}", _PMADDUBSW[lanes], a, b_vector)
    ones = _filled(1, "int16", 2 * lanes)
    return acc + intrinsics.call_llvm_pure_intrin(f"int32x{lanes}", _PMADDWD[lanes], pairs, ones)


def bf16(form: dots.DotForm, acc: PrimExpr, a_word: PrimExpr, b_vector: PrimExpr) -> PrimExpr:
    """`vdpbf16ps` adds two products to a float32; it treats subnormal numbers as zero."""
    a = intrinsics.reinterpret(form.b_vector, Broadcast(a_word, form.lanes))
    name = "llvm.x86.avx512bf16.dpbf16ps.512"
    return intrinsics.call_llvm_pure_intrin(form.c_vector, name, acc, a, b_vector)


# --- all of them --------------------------------------------------------------------------------

_U8S8, _S8S8, _U8U8 = ("", "uint8", "int8"), ("_s8s8", "int8", "int8"), ("_u8u8", "uint8", "uint8")
_S8U8 = ("_s8u8", "int8", "uint8")
_ALL_SIGNS = (_U8S8, _S8S8, _U8U8)


@dataclass(frozen=True)
class _Int8Family:
    """The int8 dot products of one extension."""

    name: str
    lanes: int
    features: tuple[str, ...]
    update: dots.Update
    signs: tuple[tuple[str, str, str], ...] = _ALL_SIGNS
    value_ranges: ValueRanges | None = None


_FAMILIES = (
    _Int8Family(VNNI_DOT_16x4_INTRIN, 16, ("avx512vnni",), vnni, (_S8S8, _U8U8, _S8U8)),
    _Int8Family("dot_8x4_vnni", 8, ("avx512vnni", "avx512vl"), vnni),
    _Int8Family("dot_8x4_avxvnni", 8, ("avxvnni",), vnni),
    _Int8Family("dot_16x4_avx512_exact", 16, ("avx512bw",), exact),
    _Int8Family("dot_8x4_avx2", 8, ("avx2",), saturating, (_U8S8,), SATURATING_RANGE),
    _Int8Family("dot_8x4_avx2_exact", 8, ("avx2",), exact),
)


for _family in _FAMILIES:
    for _suffix, _a_dtype, _b_dtype in _family.signs:
        dots.register_dot(
            _family.name + _suffix,
            dots.DotForm(_family.lanes, 4, _a_dtype, _b_dtype, "int32"),
            _family.update,
            _family.features,
            _family.value_ranges,
        )
dots.register_dot(
    BF16_DOT_16x2_INTRIN,
    dots.DotForm(16, 2, "bfloat16", "bfloat16", "float32"),
    bf16,
    ("avx512bf16",),
)

# --- TVM's own two --------------------------------------------------------------------------------

_U8S8_16x4 = dots.DotForm(16, 4, "uint8", "int8", "int32")
dot_product_16x4_u8i8i32_desc = dots.dot_description(_U8S8_16x4)
dot_product_16x4_u8i8i32_vnni = vnni_16x4("global")
dot_product_16x4_u8i8i32_avx512 = avx512_16x4("global")


def _as_tvm_does(implementation: Callable[[str], PrimFunc], scope: str) -> dots.Pair:
    return dots.dot_description(replace(_U8S8_16x4, c_scope=scope)), implementation(scope)


for _name, _implementation, _features, _ranges in (
    (VNNI_DOT_16x4_INTRIN, vnni_16x4, ("avx512vnni",), None),
    (AVX512_DOT_16x4_INTRIN, avx512_16x4, ("avx512bw",), SATURATING_RANGE),
):
    for _suffix, _scope in (("", "global"), (dots.LOCAL, "local")):
        TensorIntrin.register_maker(
            _name + _suffix,
            partial(_as_tvm_does, _implementation, _scope),
            features=_features,
            value_ranges=_ranges,
        )
