# mypy: disable-error-code="valid-type, no-untyped-def"
"""Programs that the sequences transform; the part of a sequence's name before `__` is one of them.

Add programs as functions without arguments; keep to what TVM's own parser reads.
"""

from __future__ import annotations

from tilewright.ir import PrimFunc
from tilewright.script import tir as T


def matmul() -> PrimFunc:
    """One reduction."""

    @T.prim_func
    def main(
        A: T.Buffer((32, 24), "float32"),
        B: T.Buffer((24, 48), "float32"),
        C: T.Buffer((32, 48), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, j, k in T.grid(32, 48, 24):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return main


def matmul_relu() -> PrimFunc:
    """A reduction and an elementwise consumer, through an intermediate buffer."""

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
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(32, 48):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], T.float32(0))

    return main


def chain() -> PrimFunc:
    """Three elementwise stages in a row."""

    @T.prim_func
    def main(A: T.Buffer((17, 20), "float32"), D: T.Buffer((17, 20), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((17, 20), "float32")
        C = T.alloc_buffer((17, 20), "float32")
        for i, j in T.grid(17, 20):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(17, 20):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)
        for i, j in T.grid(17, 20):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi, vj] * B[vi, vj]

    return main


def symbolic() -> PrimFunc:
    """An elementwise stage over a size that is not known."""

    @T.prim_func
    def main(a: T.handle, b: T.handle, n: T.int32):
        T.func_attr({"tir.noalias": T.bool(True)})
        A = T.match_buffer(a, (n, 16), "float32")
        B = T.match_buffer(b, (n, 16), "float32")
        for i, j in T.grid(n, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    return main


def unit_loops() -> PrimFunc:
    """Loops of one iteration among others."""

    @T.prim_func
    def main(A: T.Buffer((1, 8, 1, 6), "float32"), B: T.Buffer((1, 8, 1, 6), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for n, i, c, j in T.grid(1, 8, 1, 6):
            with T.block("B"):
                vn, vi, vc, vj = T.axis.remap("SSSS", [n, i, c, j])
                B[vn, vi, vc, vj] = A[vn, vi, vc, vj] + T.float32(1)

    return main


def blur() -> PrimFunc:
    """A stencil over an intermediate buffer."""

    @T.prim_func
    def main(A: T.Buffer((20, 18), "float32"), C: T.Buffer((18, 16), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((20, 16), "float32")
        for i, j in T.grid(20, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + A[vi, vj + 1] + A[vi, vj + 2]
        for i, j in T.grid(18, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + B[vi + 1, vj] + B[vi + 2, vj]

    return main


def row_sum() -> PrimFunc:
    """A long reduction with little else."""

    @T.prim_func
    def main(A: T.Buffer((8, 128), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, k in T.grid(8, 128):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    return main
