"""`sdot4` of AMD GPUs: a dot product of four pairs of bytes in one thread."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from tilewright.intrin.dot_product_common import Pair, dp4a_desc
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.script import tir as T

AMDGPU_SDOT4_INTRIN = "sdot4"


def _sdot4() -> Pair:
    @T.prim_func
    def sdot4(
        A: T.Buffer((4,), "int8", offset_factor=1, align=4, scope="shared"),
        B: T.Buffer((4,), "int8", offset_factor=1, align=4, scope="shared"),
        C: T.Buffer((1,), "int32", offset_factor=1, align=4, scope="local"),
    ) -> None:
        with T.block("root"):
            T.reads(C[0], A[0:4], B[0:4])
            T.writes(C[0])
            C[0] += T.call_llvm_pure_intrin(
                T.llvm_lookup_intrinsic_id("llvm.amdgcn.sdot4"),
                T.reinterpret(A.vload([0], "int8x4"), dtype="int32"),
                T.reinterpret(B.vload([0], "int8x4"), dtype="int32"),
                T.int32(0),
                T.bool(True),
                dtype="int32",
            )

    return dp4a_desc, sdot4


TensorIntrin.register_maker(AMDGPU_SDOT4_INTRIN, _sdot4)
