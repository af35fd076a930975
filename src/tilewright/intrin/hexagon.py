"""Dot products of Hexagon's vector unit: 32 accumulators in one register of 128 bytes.

Names with `vtcm` take operands in the memory next to the vector unit.
"""

from __future__ import annotations

from functools import partial

from tilewright.intrin.dot_product_common import DotForm, Update, make_dot
from tilewright.ir import Broadcast, PrimExpr
from tilewright.ir.intrinsics import call_llvm_pure_intrin, reinterpret
from tilewright.ir.tensor_intrin import TensorIntrin

VRMPY_u8u8i32_INTRIN = "dot_32x4_u8u8i32_vrmpy"
VRMPY_u8i8i32_INTRIN = "dot_32x4_u8i8i32_vrmpy"
VDMPY_i16i16i32_INTRIN = "dot_product_32x2_i16i16i32_vdmpy"
VRMPY_u8u8i32_VTCM_INTRIN = "dot_32x4_u8u8i32_vtcm_vrmpy"
VRMPY_u8i8i32_VTCM_INTRIN = "dot_32x4_u8i8i32_vtcm_vrmpy"

LANES = 32

_VTCM = "global.vtcm"
_U8U8 = "llvm.hexagon.V6.vrmpyubv.acc.128B"
_U8I8 = "llvm.hexagon.V6.vrmpybusv.acc.128B"
_I16 = "llvm.hexagon.V6.vdmpyhvsat.acc.128B"


def whole_registers(llvm: str) -> Update:
    """One instruction on registers of 32 words."""

    def update(form: DotForm, acc: PrimExpr, a_word: PrimExpr, b_vector: PrimExpr) -> PrimExpr:
        words = reinterpret(form.c_vector, b_vector)
        return call_llvm_pure_intrin(form.c_vector, llvm, acc, Broadcast(a_word, LANES), words)

    return update


for _name, _depth, _a_dtype, _b_dtype, _llvm, _scope in (
    (VRMPY_u8u8i32_INTRIN, 4, "uint8", "uint8", _U8U8, "global"),
    (VRMPY_u8i8i32_INTRIN, 4, "uint8", "int8", _U8I8, "global"),
    (VDMPY_i16i16i32_INTRIN, 2, "int16", "int16", _I16, "global"),
    (VRMPY_u8u8i32_VTCM_INTRIN, 4, "uint8", "uint8", _U8U8, _VTCM),
    (VRMPY_u8i8i32_VTCM_INTRIN, 4, "uint8", "int8", _U8I8, _VTCM),
):
    _form = DotForm(LANES, _depth, _a_dtype, _b_dtype, "int32", _scope, _scope)
    TensorIntrin.register_maker(_name, partial(make_dot, _form, whole_registers(_llvm)))
