# mypy: disable-error-code="valid-type, no-untyped-def"
"""More programs that the sequences transform: odd extents, several readers, conditions, steps."""

from __future__ import annotations

from tilewright.ir import PrimFunc
from tilewright.script import tir as T


def fan_out() -> PrimFunc:
    """One stage that three others read, in different places."""

    @T.prim_func
    def main(
        A: T.Buffer((13, 7), "float32"),
        C: T.Buffer((13, 7), "float32"),
        D: T.Buffer((7, 13), "float32"),
        E: T.Buffer((12,), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((13, 7), "float32")
        for i, j in T.grid(13, 7):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(13, 7):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + A[vi, vj]
        for i, j in T.grid(7, 13):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vj, vi] + T.float32(1)
        for i in range(12):
            with T.block("E"):
                vi = T.axis.spatial(12, i)
                E[vi] = B[vi, 0] + B[vi + 1, 6]

    return main


def odd_matmul() -> PrimFunc:
    """A product of matrices whose sizes are prime, and a stage over it."""

    @T.prim_func
    def main(
        A: T.Buffer((13, 11), "float32"),
        B: T.Buffer((11, 17), "float32"),
        D: T.Buffer((13, 17), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        C = T.alloc_buffer((13, 17), "float32")
        for i, j, k in T.grid(13, 17, 11):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(13, 17):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], T.float32(0))

    return main


def padding() -> PrimFunc:
    """A stage that pads by different amounts on each side, and a reader."""

    @T.prim_func
    def main(A: T.Buffer((5, 9), "float32"), C: T.Buffer((8, 13), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        P = T.alloc_buffer((8, 13), "float32")
        for i, j in T.grid(8, 13):
            with T.block("P"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi - 2, vj - 1])
                T.writes(P[vi, vj])
                P[vi, vj] = T.if_then_else(
                    vi >= 2 and vi < 7 and vj >= 1 and vj < 10, A[vi - 2, vj - 1], T.float32(-1)
                )
        for i, j in T.grid(8, 13):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = P[vi, vj] * T.float32(2)

    return main


def padding_at_the_end() -> PrimFunc:
    """A stage that pads behind only."""

    @T.prim_func
    def main(A: T.Buffer((10,), "float32"), C: T.Buffer((16,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i in range(16):
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = T.if_then_else(vi < 10, A[vi], T.float32(0))

    return main


def in_place() -> PrimFunc:
    """An update of a buffer in place."""

    @T.prim_func
    def main(A: T.Buffer((9, 6), "float32"), B: T.Buffer((9, 6), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, j in T.grid(9, 6):
            with T.block("first"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] * T.float32(2) + B[vi, vj]

    return main


def unit_stages() -> PrimFunc:
    """Two stages with loops of one iteration among others."""

    @T.prim_func
    def main(A: T.Buffer((1, 8, 1, 6), "float32"), C: T.Buffer((1, 8, 1, 6), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((1, 8, 1, 6), "float32")
        for n, i, c, j in T.grid(1, 8, 1, 6):
            with T.block("B"):
                vn, vi, vc, vj = T.axis.remap("SSSS", [n, i, c, j])
                B[vn, vi, vc, vj] = A[vn, vi, vc, vj] + T.float32(1)
        for n, i, c, j in T.grid(1, 8, 1, 6):
            with T.block("C"):
                vn, vi, vc, vj = T.axis.remap("SSSS", [n, i, c, j])
                C[vn, vi, vc, vj] = B[vn, vi, vc, vj] * T.float32(2)

    return main


def refolded() -> PrimFunc:
    """A stage that is read in rows of another length."""

    @T.prim_func
    def main(A: T.Buffer((16, 12), "float32"), C: T.Buffer((12, 16), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((16, 12), "float32")
        for i, j in T.grid(16, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(12, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[(vi * 16 + vj) // 12, (vi * 16 + vj) % 12] + T.float32(1)

    return main


def strided_conv() -> PrimFunc:
    """A convolution in steps of two with gaps in its window."""

    @T.prim_func
    def main(
        A: T.Buffer((15, 3), "float32"),
        W: T.Buffer((3, 3, 5), "float32"),
        C: T.Buffer((6, 5), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        for h, c, r, k in T.grid(6, 5, 3, 3):
            with T.block("C"):
                vh, vc, vr, vk = T.axis.remap("SSRR", [h, c, r, k])
                with T.init():
                    C[vh, vc] = T.float32(0)
                C[vh, vc] = C[vh, vc] + A[vh * 2 + vr * 2, vk] * W[vr, vk, vc]

    return main


def named_result() -> PrimFunc:
    """A product of matrices that names its result among its reads, and a stage over it."""

    @T.prim_func
    def main(
        A: T.Buffer((32, 24), "float32"),
        B: T.Buffer((24, 48), "float32"),
        D: T.Buffer((32, 48), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        C = T.alloc_buffer((32, 48), "float32")
        for i, j, k in T.grid(32, 48, 24):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(32, 48):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], T.float32(0))

    return main


def sum_of_stage() -> PrimFunc:
    """Rows of a stage added up, and a stage over the sums."""

    @T.prim_func
    def main(A: T.Buffer((16, 64), "float32"), D: T.Buffer((16,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((16, 64), "float32")
        C = T.alloc_buffer((16,), "float32")
        for i, j in T.grid(16, 64):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, k in T.grid(16, 64):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + B[vi, vk]
        for i in range(16):
            with T.block("D"):
                vi = T.axis.spatial(16, i)
                D[vi] = C[vi] + T.float32(1)

    return main
