"""Sums of packed bytes of x86, as products of signed bytes start from them.

`sum_16x4_int8`: C[i] += B[i, k] * -128. `vpdpbusd` multiplies by unsigned bytes, and 128 is one:
what it
adds up is subtracted. See `shift_operand`.
"""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from tilewright.intrin.dot_product_common import Pair
from tilewright.ir import Broadcast, Buffer, PrimExpr, const
from tilewright.ir.intrinsics import call_llvm_pure_intrin, reinterpret
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.script import tir as T

LANES, DEPTH = 16, 4
SUM_16x4_INTRIN = "sum_16x4_int8"

_HALF = 128
_HALVES = -0x7F7F7F80  # 0x80808080: 128 in each of four bytes


def make_sum() -> Pair:
    """The description and the implementation."""

    def updated(B: Buffer, C: Buffer) -> PrimExpr:
        words = f"int32x{LANES}"
        total = call_llvm_pure_intrin(
            words,
            "llvm.x86.avx512.vpdpbusd.512",
            Broadcast(const(0, "int32"), LANES),
            Broadcast(const(_HALVES, "int32"), LANES),
            reinterpret(words, B.vload([0, 0], f"int8x{LANES * DEPTH}")),
        )
        return C.vload([0], words) - total

    @T.prim_func
    def sum_desc(b: T.handle, c: T.handle) -> None:
        B = T.match_buffer(b, (LANES, DEPTH), "int8", offset_factor=1)
        C = T.match_buffer(c, (LANES,), "int32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:LANES], B[0:LANES, 0:DEPTH])
            T.writes(C[0:LANES])
            for i, k in T.grid(LANES, DEPTH):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.cast(B[vi, vk], "int32") * -_HALF

    @T.prim_func
    def sum_impl(b: T.handle, c: T.handle) -> None:
        B = T.match_buffer(b, (LANES, DEPTH), "int8", offset_factor=1)
        C = T.match_buffer(c, (LANES,), "int32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:LANES], B[0:LANES, 0:DEPTH])
            T.writes(C[0:LANES])
            C[T.ramp(T.int32(0), 1, LANES)] = updated(B, C)

    return sum_desc, sum_impl


TensorIntrin.register_maker(SUM_16x4_INTRIN, make_sum, features=("avx512vnni",))
