"""Sums of bytes of x86, as products of signed bytes start from them; see `shift_operand`.

    sum_16x4_int8         C[i] += B[i, k] * -128      of a packed operand
    sum_16x4_uint8        C[i] += B[i, k] * 128
    sum_16x4_int8_row     C[i] += B[i * 4 + k] * -128 of a row
    sum_16x4_uint8_row    C[i] += B[i * 4 + k] * 128

`vpdpbusd` multiplies unsigned by signed bytes. 128 is an unsigned one and -128 a signed one, and
what it adds up with those is subtracted. Rows also come in 8 and 4 lanes, for lengths that 64 does
not divide.
"""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from functools import partial

from tilewright.intrin.dot_product_common import Pair
from tilewright.ir import Broadcast, Buffer, BufferRegion, PrimExpr, const
from tilewright.ir.intrinsics import call_llvm_pure_intrin, reinterpret
from tilewright.ir.tensor_intrin import Computes, TensorIntrin
from tilewright.script import tir as T

DEPTH = 4
ROW_LANES = (16, 8, 4)
_HALVES = -0x7F7F7F80  # 0x80808080: 128, or -128, in each of four bytes
_FACTORS = {"int8": -128, "uint8": 128}


def sum_name(lanes: int, dtype: str, *, row: bool) -> str:
    """The instruction that sums up groups of four bytes, in units or along a row."""
    return f"sum_{lanes}x{DEPTH}_{dtype}" + ("_row" if row else "")


def _updated(old: PrimExpr, values: PrimExpr, lanes: int, dtype: str) -> PrimExpr:
    words = f"int32x{lanes}"
    halves: PrimExpr = Broadcast(const(_HALVES, "int32"), lanes)
    factors = [halves, reinterpret(words, values)]
    if dtype == "uint8":
        factors.reverse()  # the unsigned factor comes first
    zero = Broadcast(const(0, "int32"), lanes)
    return old - call_llvm_pure_intrin(
        words, f"llvm.x86.avx512.vpdpbusd.{32 * lanes}", zero, *factors
    )


def make_sum(lanes: int, dtype: str, *, row: bool) -> Pair:
    """The description and the implementation of one of them."""
    total = lanes * DEPTH
    shape = (total,) if row else (lanes, DEPTH)
    first = [0] * len(shape)
    factor = _FACTORS[dtype]

    def whole(B: Buffer) -> BufferRegion:
        return BufferRegion.full(B)

    def element(B: Buffer, lane: PrimExpr, step: PrimExpr) -> PrimExpr:
        return B[lane * DEPTH + step] if row else B[lane, step]

    def updated(B: Buffer, C: Buffer) -> PrimExpr:
        values = B.vload(first, f"{dtype}x{total}")
        return _updated(C.vload([0], f"int32x{lanes}"), values, lanes, dtype)

    @T.prim_func
    def sum_desc(b: T.handle, c: T.handle) -> None:
        B = T.match_buffer(b, shape, dtype, offset_factor=1)
        C = T.match_buffer(c, (lanes,), "int32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:lanes], whole(B))
            T.writes(C[0:lanes])
            for i, k in T.grid(lanes, DEPTH):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.cast(element(B, vi, vk), "int32") * factor

    @T.prim_func
    def sum_impl(b: T.handle, c: T.handle) -> None:
        B = T.match_buffer(b, shape, dtype, offset_factor=1)
        C = T.match_buffer(c, (lanes,), "int32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:lanes], whole(B))
            T.writes(C[0:lanes])
            C[T.ramp(T.int32(0), 1, lanes)] = updated(B, C)

    return sum_desc, sum_impl


for _dtype in _FACTORS:
    for _lanes, _row in ((16, False), *((_lanes, True) for _lanes in ROW_LANES)):
        TensorIntrin.register_maker(
            sum_name(_lanes, _dtype, row=_row),
            partial(make_sum, _lanes, _dtype, row=_row),
            features=("avx512vnni",) if _lanes == 16 else ("avx512vnni", "avx512vl"),
            computes=Computes("row sum" if _row else "sum", _dtype, _lanes, DEPTH),
        )
