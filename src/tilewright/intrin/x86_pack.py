"""Packing: a few rows become the interleaved order in which dot products take their right operand.

`dst[i, k] = src[k, i]`: every row is one vector load, and one shuffle of all of them is stored as
one vector. LLVM makes unpack and permute instructions of the shuffle, on any x86.
"""

from __future__ import annotations

from functools import partial

from tilewright import ir
from tilewright.intrin.programs import Pair, description, tile_function, whole_store
from tilewright.ir import intrinsics
from tilewright.ir.intrinsics import call_llvm_pure_intrin, reinterpret
from tilewright.ir.tensor_intrin import Computes, TensorIntrin
from tilewright.script import tir as T

_OTHER_SIGN = {"int8": "uint8", "uint8": "int8"}
_SIGN_BIT = {"int8": -128, "uint8": 128}


def pack_name(depth: int, lanes: int, dtype: str, units: int = 1) -> str:
    """The instruction that interleaves `depth` rows of `units` times `lanes` elements."""
    shape = f"{depth}x{lanes}" if units == 1 else f"{depth}x{lanes}x{units}"
    return f"pack_{shape}_{dtype}"


def make_pack(depth: int, lanes: int, dtype: str, units: int = 1, *, shifted: bool = False) -> Pair:
    """The description and the implementation of an instruction.

    A shifted one flips the sign bits on the way, so that signed bytes become unsigned and the
    other way round; see `shift_operand`.
    """
    width = lanes * units
    total = depth * width
    order = [k * width + i for i in range(width) for k in range(depth)]
    result = _OTHER_SIGN[dtype] if shifted else dtype

    def interleaved(src: ir.Buffer) -> ir.PrimExpr:
        # Small floats are only moved, so they are moved as integers: nothing converts those.
        bits = f"int{src.dtype.bits}"
        rows = [
            intrinsics.reinterpret(f"{bits}x{width}", src.vload([k, 0], f"{dtype}x{width}"))
            for k in range(depth)
        ]
        mixed: ir.PrimExpr = T.Shuffle([_joined(rows)], order)
        if shifted:
            flip = ir.Broadcast(ir.const(-128, "int8"), total)
            return ir.cast(f"{result}x{total}", intrinsics.bitwise_xor(mixed, flip))
        return intrinsics.reinterpret(f"{result}x{total}", mixed)

    def element(src: ir.Buffer, k: ir.PrimExpr, i: ir.PrimExpr) -> ir.PrimExpr:
        value: ir.PrimExpr = src[k, i]
        if shifted:
            value = ir.cast(
                result, intrinsics.bitwise_xor(value, ir.const(_SIGN_BIT[dtype], dtype))
            )
        return value

    # Several units lie side by side before, and one behind the other afterwards.
    shape = (lanes, depth) if units == 1 else (units, lanes, depth)
    dst = ir.decl_buffer(shape, result, "dst", offset_factor=1)
    src = ir.decl_buffer((depth, width), dtype, "src", offset_factor=1)
    strides = [ir.Var("row", ir.INT32), ir.const(1)]
    rows = ir.decl_buffer((depth, width), dtype, "src", strides=strides, offset_factor=1)

    def packed(*at: ir.PrimExpr) -> ir.PrimExpr:
        *unit, i, k = at
        return element(src, k, unit[0] * lanes + i if unit else i)

    return (
        description(("pack_desc", "pack"), (dst, src), dst, shape, packed),
        tile_function("pack_impl", (dst, rows), dst, whole_store(dst, interleaved(rows))),
    )


def _joined(vectors: list[ir.PrimExpr]) -> ir.PrimExpr:
    """Vectors, a power of two of them, one behind the other."""
    while len(vectors) > 1:
        vectors = [
            intrinsics.call_intrin(
                low.dtype.with_lanes(2 * low.dtype.lanes), "tir.vectorcombine", low, high
            )
            for low, high in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    return vectors[0]


for _depth, _lanes, _dtype, _units in (
    (4, 16, "int8", 4), (4, 16, "uint8", 4), (4, 8, "int8", 1), (4, 8, "uint8", 1),
    (2, 16, "bfloat16", 4),
):  # fmt: skip
    for _count in range(1, _units + 1):
        TensorIntrin.register_maker(
            pack_name(_depth, _lanes, _dtype, _count),
            partial(make_pack, _depth, _lanes, _dtype, _count),
            computes=Computes("pack", _dtype, _lanes, _depth, _count),
        )
for _dtype in _OTHER_SIGN:
    for _count in range(1, 5):
        TensorIntrin.register_maker(
            pack_name(4, 16, _dtype, _count) + "_shifted",
            partial(make_pack, 4, 16, _dtype, _count, shifted=True),
            computes=Computes("shifted pack", _dtype, 16, 4, _count),
        )


# --- sums of bytes, as products of signed bytes start from them; see `shift_operand` ------------
#
#     sum_16x4_int8         C[i] += B[i, k] * -128      of a packed operand
#     sum_16x4_uint8        C[i] += B[i, k] * 128
#     sum_16x4_int8_row     C[i] += B[i * 4 + k] * -128 of a row
#     sum_16x4_uint8_row    C[i] += B[i * 4 + k] * 128
#
# `vpdpbusd` multiplies unsigned by signed bytes. 128 is an unsigned one and -128 a signed one, and
# what it adds up with those is subtracted. Rows also come in 8 and 4 lanes, for lengths that 64
# does not divide.

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
