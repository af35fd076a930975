"""Dot products of Hexagon's vector unit: 32 accumulators in one register of 128 bytes.

Names with `vtcm` take operands in the memory next to the vector unit.
"""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tilewright.intrin.dot_product_common import Pair
from tilewright.ir import PrimExpr, cast
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.script import tir as T

VRMPY_u8u8i32_INTRIN = "dot_32x4_u8u8i32_vrmpy"
VRMPY_u8i8i32_INTRIN = "dot_32x4_u8i8i32_vrmpy"
VDMPY_i16i16i32_INTRIN = "dot_product_32x2_i16i16i32_vdmpy"
VRMPY_u8u8i32_VTCM_INTRIN = "dot_32x4_u8u8i32_vtcm_vrmpy"
VRMPY_u8i8i32_VTCM_INTRIN = "dot_32x4_u8i8i32_vtcm_vrmpy"

LANES = 32


@dataclass(frozen=True)
class _Instruction:
    name: str
    depth: int  # products a lane
    a_dtype: str
    b_dtype: str
    llvm: str
    scope: str = "global"


_VTCM = "global.vtcm"
_U8U8 = "llvm.hexagon.V6.vrmpyubv.acc.128B"
_U8I8 = "llvm.hexagon.V6.vrmpybusv.acc.128B"
_I16 = "llvm.hexagon.V6.vdmpyhvsat.acc.128B"
_INSTRUCTIONS = (
    _Instruction(VRMPY_u8u8i32_INTRIN, 4, "uint8", "uint8", _U8U8),
    _Instruction(VRMPY_u8i8i32_INTRIN, 4, "uint8", "int8", _U8I8),
    _Instruction(VDMPY_i16i16i32_INTRIN, 2, "int16", "int16", _I16),
    _Instruction(VRMPY_u8u8i32_VTCM_INTRIN, 4, "uint8", "uint8", _U8U8, _VTCM),
    _Instruction(VRMPY_u8i8i32_VTCM_INTRIN, 4, "uint8", "int8", _U8I8, _VTCM),
)


def _make(instruction: _Instruction) -> Pair:
    """`C[i] += A[k] * B[i, k]`, and one instruction on whole registers."""
    depth, scope, llvm = instruction.depth, instruction.scope, instruction.llvm
    a_dtype, b_dtype = instruction.a_dtype, instruction.b_dtype
    a_vector, b_vector = f"{a_dtype}x{depth}", f"{b_dtype}x{LANES * depth}"

    def widened(value: PrimExpr) -> PrimExpr:
        return cast("int32", value)

    @T.prim_func
    def desc(
        A: T.Buffer((depth,), a_dtype, offset_factor=1, scope=scope),
        B: T.Buffer((LANES, depth), b_dtype, offset_factor=1, scope=scope),
        C: T.Buffer((LANES,), "int32", offset_factor=1, scope=scope),
    ) -> None:
        with T.block("root"):
            T.reads(C[0:LANES], A[0:depth], B[0:LANES, 0:depth])
            T.writes(C[0:LANES])
            for i, k in T.grid(LANES, depth):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + widened(A[vk]) * widened(B[vi, vk])

    @T.prim_func
    def impl(
        A: T.Buffer((depth,), a_dtype, offset_factor=1, scope=scope),
        B: T.Buffer((LANES, depth), b_dtype, offset_factor=1, scope=scope),
        C: T.Buffer((LANES,), "int32", offset_factor=1, scope=scope),
    ) -> None:
        with T.block("root"):
            T.reads(C[0:LANES], A[0:depth], B[0:LANES, 0:depth])
            T.writes(C[0:LANES])
            C[T.ramp(T.int32(0), 1, LANES)] = T.call_llvm_pure_intrin(
                T.llvm_lookup_intrinsic_id(llvm),
                C.vload([0], dtype="int32x32"),
                T.broadcast(T.reinterpret(A.vload([0], a_vector), dtype="int32"), LANES),
                T.reinterpret(B.vload([0, 0], dtype=b_vector), dtype="int32x32"),
                dtype="int32x32",
            )

    return desc, impl


def _register_all() -> None:
    for instruction in _INSTRUCTIONS:
        TensorIntrin.register_maker(instruction.name, partial(_make, instruction))


_register_all()
