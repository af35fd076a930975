"""Dot products of Arm CPUs: four 32-bit sums of four products of bytes each.

`sdot` and `udot` do it in one instruction (feature `dotprod`); every AArch64 CPU has the longer way
over widening products. Names with the suffix `_local` take accumulators in registers.
"""

from __future__ import annotations

from tilewright.intrin.dot_product_common import DotForm, Update, register_dot
from tilewright.ir import Broadcast, PrimExpr
from tilewright.ir.intrinsics import call_intrin, call_llvm_pure_intrin, reinterpret

ARM_DOT_4x4_i8_NEON_INTRIN = "dot_4x4_i8i8s32_neon"
ARM_DOT_4x4_i8_SDOT_INTRIN = "dot_4x4_i8i8s32_sdot"
ARM_DOT_4x4_u8_UDOT_INTRIN = "dot_4x4_u8u8u32_udot"
ARM_DOT_4x4_u8_HDOT_INTRIN = "dot_4x4_u8u8i32_hdot"


def neon(form: DotForm, acc: PrimExpr, a_word: PrimExpr, b_vector: PrimExpr) -> PrimExpr:
    """Widening products of two rows at a time, then sums of neighbours, twice.

    A product of two int8 fits 16 bits, and `saddlp` widens while it adds: nothing is ever cut off.
    """
    del form
    a = reinterpret("int8x8", Broadcast(a_word, 2))

    def sums_of_pairs(half: str) -> PrimExpr:
        rows = call_intrin("int8x8", half, b_vector)
        products = call_llvm_pure_intrin("int16x8", "llvm.aarch64.neon.smull.v8i16", a, rows)
        return call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.saddlp.v4i32.v8i16", products)

    pairs = map(sums_of_pairs, ("tir.vectorlow", "tir.vectorhigh"))
    return acc + call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.addp.v4i32", *pairs)


def dotprod(instruction: str) -> Update:
    """`sdot` or `udot`: all products and sums in one instruction."""
    name = f"llvm.aarch64.neon.{instruction}.v4i32.v16i8"

    def update(form: DotForm, acc: PrimExpr, a_word: PrimExpr, b_vector: PrimExpr) -> PrimExpr:
        a = reinterpret(f"{form.a_dtype}x16", Broadcast(a_word, 4))
        return call_llvm_pure_intrin(form.c_vector, name, acc, a, b_vector)

    return update


for _name, _byte, _result, _update, _feature in (
    (ARM_DOT_4x4_i8_NEON_INTRIN, "int8", "int32", neon, "neon"),
    (ARM_DOT_4x4_i8_SDOT_INTRIN, "int8", "int32", dotprod("sdot"), "dotprod"),
    (ARM_DOT_4x4_u8_UDOT_INTRIN, "uint8", "uint32", dotprod("udot"), "dotprod"),
    (ARM_DOT_4x4_u8_HDOT_INTRIN, "uint8", "int32", dotprod("udot"), "dotprod"),
):
    register_dot(_name, DotForm(4, 4, _byte, _byte, _result), _update, (_feature,))
