"""Sums of bytes of x86, as products of signed bytes start from them; see `shift_operand`.

    sum_16x4_int8         C[i] += B[i, k] * -128      of a packed operand
    sum_16x4_uint8        C[i] += B[i, k] * 128
    sum_16x4_int8_row     C[i] += B[i * 4 + k] * -128 of a row
    sum_16x4_uint8_row    C[i] += B[i * 4 + k] * 128

`vpdpbusd` multiplies unsigned by signed bytes. 128 is an unsigned one and -128 a signed one, and
what it adds up with those is subtracted. Rows also come in 8 and 4 lanes, for lengths that 64 does
not divide.
"""

from __future__ import annotations

from functools import partial

from tilewright import ir
from tilewright.intrin.programs import Pair, description, tile_function, whole_store
from tilewright.ir.intrinsics import call_llvm_pure_intrin, reinterpret
from tilewright.ir.tensor_intrin import Computes, TensorIntrin

DEPTH = 4
ROW_LANES = (16, 8, 4)
_HALVES = -0x7F7F7F80  # 0x80808080: 128, or -128, in each of four bytes
_FACTORS = {"int8": -128, "uint8": 128}


def sum_name(lanes: int, dtype: str, *, row: bool) -> str:
    """The instruction that sums up groups of four bytes, in units or along a row."""
    return f"sum_{lanes}x{DEPTH}_{dtype}" + ("_row" if row else "")


def make_sum(lanes: int, dtype: str, *, row: bool) -> Pair:
    """The description and the implementation of one of them."""
    shape = (lanes * DEPTH,) if row else (lanes, DEPTH)

    def operands() -> tuple[ir.Buffer, ir.Buffer]:
        b = ir.decl_buffer(shape, dtype, "B", offset_factor=1)
        return b, ir.decl_buffer((lanes,), "int32", "C", offset_factor=1)

    b, c = operands()

    def element(i: ir.Var, k: ir.Var) -> ir.PrimExpr:
        return ir.cast("int32", b[i * DEPTH + k] if row else b[i, k]) * _FACTORS[dtype]

    names, extents = ("sum_desc", "update"), (lanes, DEPTH)
    desc = description(names, (b, c), c, extents, element, accumulates=True)
    b, c = operands()
    words = f"int32x{lanes}"
    halves: ir.PrimExpr = ir.Broadcast(ir.const(_HALVES, "int32"), lanes)
    factors = [halves, reinterpret(words, b.vload([0] * len(shape), f"{dtype}x{lanes * DEPTH}"))]
    if dtype == "uint8":
        factors.reverse()  # the unsigned factor comes first
    zero = ir.Broadcast(ir.const(0, "int32"), lanes)
    name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
    total = c.vload([0], words) - call_llvm_pure_intrin(words, name, zero, *factors)
    return desc, tile_function("sum_impl", (b, c), c, whole_store(c, total), accumulates=True)


for _dtype in _FACTORS:
    for _lanes, _row in ((16, False), *((_lanes, True) for _lanes in ROW_LANES)):
        TensorIntrin.register_maker(
            sum_name(_lanes, _dtype, row=_row),
            partial(make_sum, _lanes, _dtype, row=_row),
            features=("avx512vnni",) if _lanes == 16 else ("avx512vnni", "avx512vl"),
            computes=Computes("row sum" if _row else "sum", _dtype, _lanes, DEPTH),
        )
