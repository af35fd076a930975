"""Dot products of four int8 pairs: one instruction of a GPU thread."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.script import tir as T

DP4A_INTRIN = "dp4a"


@T.prim_func
def dp4a_desc(
    A: T.Buffer((4,), "int8", offset_factor=1, align=4, scope="shared"),
    B: T.Buffer((4,), "int8", offset_factor=1, align=4, scope="shared"),
    C: T.Buffer((1,), "int32", offset_factor=1, align=4, scope="local"),
) -> None:
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        for i in range(0, 4):
            with T.block("update"):
                vi = T.axis.remap("R", [i])
                C[0] = C[0] + T.cast(A[vi], "int32") * T.cast(B[vi], "int32")


@T.prim_func
def dp4a_impl(
    A: T.Buffer((4,), "int8", offset_factor=1, align=4, scope="shared"),
    B: T.Buffer((4,), "int8", offset_factor=1, align=4, scope="shared"),
    C: T.Buffer((1,), "int32", offset_factor=1, align=4, scope="local"),
) -> None:
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        C[0] += T.call_pure_extern(
            "__dp4a",
            A.vload([0], "int8x4"),
            B.vload([0], "int8x4"),
            T.int32(0),
            dtype="int32",
        )


TensorIntrin.register(DP4A_INTRIN, dp4a_desc, dp4a_impl)
