"""Packing: a few rows become the interleaved order in which dot products take their right operand.

`dst[i, k] = src[k, i]`: every row is one vector load, and one shuffle of all of them is stored as
one vector. LLVM makes unpack and permute instructions of the shuffle, on any x86.
"""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from functools import partial

from tilewright.intrin.dot_product_common import Pair
from tilewright.ir import Broadcast, Buffer, PrimExpr, cast, const, intrinsics
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.script import tir as T


def pack_name(depth: int, lanes: int, dtype: str) -> str:
    """The instruction that interleaves `depth` rows of `lanes` elements."""
    return f"pack_{depth}x{lanes}_{dtype}"


def make_shifting_pack(depth: int, lanes: int) -> Pair:
    """The description and the implementation of `pack_{depth}x{lanes}_int8_shifted`.

    The sign bits are flipped on the way, so that bytes become unsigned; see `shift_operand`.
    """
    total = depth * lanes
    order = [k * lanes + i for i in range(lanes) for k in range(depth)]
    flip = Broadcast(const(-128, "int8"), total)

    def flipped(src: Buffer) -> PrimExpr:
        rows: list[PrimExpr] = [src.vload([k, 0], f"int8x{lanes}") for k in range(depth)]
        mixed = intrinsics.bitwise_xor(T.Shuffle([_joined(rows)], order), flip)
        return cast(f"uint8x{total}", mixed)

    @T.prim_func
    def pack_desc(dst_handle: T.handle, src_handle: T.handle) -> None:
        dst = T.match_buffer(dst_handle, (lanes, depth), "uint8", offset_factor=1)
        src = T.match_buffer(src_handle, (depth, lanes), "int8", offset_factor=1)
        with T.block("root"):
            T.reads(src[0:depth, 0:lanes])
            T.writes(dst[0:lanes, 0:depth])
            for i, k in T.grid(lanes, depth):
                with T.block("pack"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    dst[vi, vk] = T.Cast("uint8", T.bitwise_xor(src[vk, vi], T.int8(-128)))

    @T.prim_func
    def pack_impl(dst_handle: T.handle, src_handle: T.handle) -> None:
        row = T.int32()
        dst = T.match_buffer(dst_handle, (lanes, depth), "uint8", offset_factor=1)
        src = T.match_buffer(src_handle, (depth, lanes), "int8", offset_factor=1, strides=[row, 1])
        with T.block("root"):
            T.reads(src[0:depth, 0:lanes])
            T.writes(dst[0:lanes, 0:depth])
            dst[0, T.ramp(T.int32(0), 1, total)] = flipped(src)

    return pack_desc, pack_impl


def make_pack(depth: int, lanes: int, dtype: str) -> Pair:
    """The description and the implementation of `pack_{depth}x{lanes}_{dtype}`."""
    total = depth * lanes

    def interleaved(src: Buffer) -> PrimExpr:
        # Small floats are only moved, so they are moved as integers: nothing converts those.
        bits = f"int{src.dtype.bits}"
        rows = [
            intrinsics.reinterpret(f"{bits}x{lanes}", src.vload([k, 0], f"{dtype}x{lanes}"))
            for k in range(depth)
        ]
        order = [k * lanes + i for i in range(lanes) for k in range(depth)]
        mixed = T.Shuffle([_joined(rows)], order)
        return intrinsics.reinterpret(f"{dtype}x{total}", mixed)

    @T.prim_func
    def pack_desc(dst_handle: T.handle, src_handle: T.handle) -> None:
        dst = T.match_buffer(dst_handle, (lanes, depth), dtype, offset_factor=1)
        src = T.match_buffer(src_handle, (depth, lanes), dtype, offset_factor=1)
        with T.block("root"):
            T.reads(src[0:depth, 0:lanes])
            T.writes(dst[0:lanes, 0:depth])
            for i, k in T.grid(lanes, depth):
                with T.block("pack"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    dst[vi, vk] = src[vk, vi]

    @T.prim_func
    def pack_impl(dst_handle: T.handle, src_handle: T.handle) -> None:
        row = T.int32()
        dst = T.match_buffer(dst_handle, (lanes, depth), dtype, offset_factor=1)
        src = T.match_buffer(src_handle, (depth, lanes), dtype, offset_factor=1, strides=[row, 1])
        with T.block("root"):
            T.reads(src[0:depth, 0:lanes])
            T.writes(dst[0:lanes, 0:depth])
            dst[0, T.ramp(T.int32(0), 1, total)] = interleaved(src)

    return pack_desc, pack_impl


def _joined(vectors: list[PrimExpr]) -> PrimExpr:
    """Vectors, a power of two of them, one behind the other."""
    while len(vectors) > 1:
        vectors = [
            intrinsics.call_intrin(
                low.dtype.with_lanes(2 * low.dtype.lanes), "tir.vectorcombine", low, high
            )
            for low, high in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    return vectors[0]


for _depth, _lanes, _dtype in (
    (4, 16, "int8"), (4, 16, "uint8"), (4, 8, "int8"), (4, 8, "uint8"), (2, 16, "bfloat16"),
):  # fmt: skip
    TensorIntrin.register_maker(
        pack_name(_depth, _lanes, _dtype), partial(make_pack, _depth, _lanes, _dtype)
    )
TensorIntrin.register_maker(
    pack_name(4, 16, "int8") + "_shifted", partial(make_shifting_pack, 4, 16)
)
