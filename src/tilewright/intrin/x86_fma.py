"""Outer products of x86 in float32: one vector of results, two steps of a reduction.

`outer_16x2_f32`: C[i] += A[k] * B[k, i], as two `vfmadd` of a broadcast element and a row of B.
LLVM makes the same of plain loops over a register tile (docs/design/0012-tensorization.md has the
figures), so no default rule uses it; it is there for programs that LLVM does not see through.
"""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from functools import partial

from tilewright.intrin.dot_product_common import Pair
from tilewright.ir import Broadcast, Buffer, PrimExpr
from tilewright.ir.intrinsics import call_llvm_pure_intrin
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.script import tir as T

LANES, DEPTH = 16, 2
OUTER_16x2_INTRIN = "outer_16x2_f32"


def make_outer(scope: str) -> Pair:
    """The description and the implementation, with accumulators in a scope."""
    vector = f"float32x{LANES}"

    def updated(A: Buffer, B: Buffer, C: Buffer) -> PrimExpr:
        sums: PrimExpr = C.vload([0], vector)
        for k in range(DEPTH):
            factor = Broadcast(A.vload([k], "float32"), LANES)
            sums = call_llvm_pure_intrin(vector, "llvm.fma", factor, B.vload([k, 0], vector), sums)
        return sums

    @T.prim_func
    def outer_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (DEPTH,), "float32", offset_factor=1)
        B = T.match_buffer(b, (DEPTH, LANES), "float32", offset_factor=1)
        C = T.match_buffer(c, (LANES,), "float32", offset_factor=1, scope=scope)
        with T.block("root"):
            T.reads(C[0:LANES], A[0:DEPTH], B[0:DEPTH, 0:LANES])
            T.writes(C[0:LANES])
            for i, k in T.grid(LANES, DEPTH):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + A[vk] * B[vk, vi]

    @T.prim_func
    def outer_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
        row = T.int32()
        A = T.match_buffer(a, (DEPTH,), "float32", offset_factor=1)
        B = T.match_buffer(b, (DEPTH, LANES), "float32", offset_factor=1, strides=[row, 1])
        C = T.match_buffer(c, (LANES,), "float32", offset_factor=1, scope=scope)
        with T.block("root"):
            T.reads(C[0:LANES], A[0:DEPTH], B[0:DEPTH, 0:LANES])
            T.writes(C[0:LANES])
            C[T.ramp(T.int32(0), 1, LANES)] = updated(A, B, C)

    return outer_desc, outer_impl


for _suffix, _scope in (("", "global"), ("_local", "local")):
    TensorIntrin.register_maker(
        OUTER_16x2_INTRIN + _suffix, partial(make_outer, _scope), features=("avx512f",)
    )
