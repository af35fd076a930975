"""Dot products of x86 under TVM's names: sixteen int32 sums of four uint8 times int8 products each.

`x86_dot.py` has their relatives for other types and other extensions, `x86_pack.py` what brings
operands into the order they need. A name with the suffix `_local` is the same instruction on
accumulators in scope `local`: they stay in registers.
"""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from functools import partial

from tilewright.intrin.dot_product_common import DotForm, Pair, dot_description
from tilewright.ir import PrimFunc
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.script import tir as T

VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"
AVX512_DOT_16x4_INTRIN = "dot_16x4_avx512"
LOCAL = "_local"

# `pmaddubsw` adds two products in 16 bits and saturates: for larger values of A it is not exact.
SATURATING_RANGE = {"A": (0, 128)}


def _description(scope: str) -> PrimFunc:
    return dot_description(DotForm(16, 4, "uint8", "int8", "int32", scope))


def _vnni(scope: str) -> PrimFunc:
    @T.prim_func
    def dot_product_16x4_u8i8i32_vnni(
        A: T.Buffer((4,), "uint8", offset_factor=1),
        B: T.Buffer((16, 4), "int8", offset_factor=1),
        C: T.Buffer((16,), "int32", offset_factor=1, scope=scope),
    ) -> None:
        with T.block("root"):
            T.reads(C[0:16], A[0:4], B[0:16, 0:4])
            T.writes(C[0:16])

            A_u8x4 = A.vload([0], "uint8x4")
            A_i32 = T.reinterpret(A_u8x4, dtype="int32")

            B_i8x64 = B.vload([0, 0], dtype="int8x64")
            B_i32x16 = T.reinterpret(B_i8x64, dtype="int32x16")
            C_i32x16 = C.vload([0], dtype="int32x16")

            C[T.ramp(T.int32(0), 1, 16)] = T.call_llvm_pure_intrin(
                T.llvm_lookup_intrinsic_id("llvm.x86.avx512.vpdpbusd.512"),
                T.uint32(3),
                C_i32x16,
                T.broadcast(A_i32, 16),
                B_i32x16,
                dtype="int32x16",
            )

    return dot_product_16x4_u8i8i32_vnni


def _avx512(scope: str) -> PrimFunc:
    @T.prim_func
    def dot_product_16x4_u8i8i32_avx512(
        A: T.Buffer((4,), "uint8", offset_factor=1),
        B: T.Buffer((16, 4), "int8", offset_factor=1),
        C: T.Buffer((16,), "int32", offset_factor=1, scope=scope),
    ) -> None:
        with T.block("root"):
            T.reads(C[0:16], A[0:4], B[0:16, 0:4])
            T.writes(C[0:16])

            A_u8x4 = A.vload([0], "uint8x4")
            A_i32 = T.reinterpret(A_u8x4, dtype="int32")
            A_brdcst = T.broadcast(A_i32, 16)
            A_u8x64 = T.reinterpret(A_brdcst, dtype="uint8x64")

            B_i8x64 = B.vload([0, 0], dtype="int8x64")

            Red = T.call_llvm_pure_intrin(
                T.llvm_lookup_intrinsic_id("llvm.x86.avx512.pmaddubs.w.512"),
                T.uint32(2),
                A_u8x64,
                B_i8x64,
                dtype="int16x32",
            )

            C[T.ramp(T.int32(0), 1, 16)] += T.call_llvm_pure_intrin(
                T.llvm_lookup_intrinsic_id("llvm.x86.avx512.pmaddw.d.512"),
                T.uint32(2),
                Red,
                T.int16x32(1),
                dtype="int32x16",
            )

    return dot_product_16x4_u8i8i32_avx512


dot_product_16x4_u8i8i32_desc = _description("global")
dot_product_16x4_u8i8i32_vnni = _vnni("global")
dot_product_16x4_u8i8i32_avx512 = _avx512("global")


def _make_vnni(scope: str) -> Pair:
    return _description(scope), _vnni(scope)


def _make_avx512(scope: str) -> Pair:
    return _description(scope), _avx512(scope)


TensorIntrin.register_maker(
    VNNI_DOT_16x4_INTRIN,
    lambda: (dot_product_16x4_u8i8i32_desc, dot_product_16x4_u8i8i32_vnni),
    features=("avx512vnni",),
)
TensorIntrin.register_maker(
    VNNI_DOT_16x4_INTRIN + LOCAL, partial(_make_vnni, "local"), features=("avx512vnni",)
)
TensorIntrin.register_maker(
    AVX512_DOT_16x4_INTRIN,
    lambda: (dot_product_16x4_u8i8i32_desc, dot_product_16x4_u8i8i32_avx512),
    features=("avx512bw",),
    value_ranges=SATURATING_RANGE,
)
TensorIntrin.register_maker(
    AVX512_DOT_16x4_INTRIN + LOCAL,
    partial(_make_avx512, "local"),
    features=("avx512bw",),
    value_ranges=SATURATING_RANGE,
)
